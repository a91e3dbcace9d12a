// SPDX-License-Identifier: Apache-2.0
#include "tls/failures.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>

namespace spate::tls {
namespace {

struct Reason {
  int code;
  const char* text;  // follows "the server" or "the client"
};

constexpr auto kReasons = std::to_array<Reason>({
    {SSL_R_UNSUPPORTED_PROTOCOL, "speaks only TLS 1.2 or older"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "speaks only TLS 1.2 or older"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "shows no certificate"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, "wants a certificate of this side (tls.certificate)"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, "does not accept this side's certificate: its tls.ca has not signed it"},
    {SSL_R_TLSV1_ALERT_DECRYPT_ERROR, "does not accept this side's certificate: its tls.ca has not signed it"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
     "does not accept this side's certificate: it has expired, or the server's revocation list has expired"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, "does not accept this side's certificate: it was revoked"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
     "does not accept this side's certificate: it is for another host, not valid yet, or damaged"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, "does not accept this side's certificate: it is for another use"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "does not accept this side's certificate"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, "offers no key that this side knows"},
    {SSL_R_NO_SHARED_CIPHER, "offers no key or cipher that this side knows"},
    {SSL_R_BINDER_DOES_NOT_VERIFY, "does not hold the key that it names"},
    {SSL_R_NO_APPLICATION_PROTOCOL, "speaks another protocol inside of TLS"},
    {SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, "speaks another protocol inside of TLS"},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, ""},
});

/// "the server does not speak TLS", and the probable mistake in the reader's own configuration.
std::string describe_no_tls(bool connects) {
  return connects ? "the server does not speak TLS: its spate.toml may have tcp:// for this tcp+tls:// address"
                  : "the client does not speak TLS: its spate.toml may have tcp:// for this tcp+tls:// address";
}

}  // namespace

bool is_no_tls(unsigned long code) {
  const int reason = ERR_GET_REASON(code);
  return !ERR_SYSTEM_ERROR(code) && (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST);
}

std::string describe_failure(unsigned long code, bool connects, bool by_key) {
  if (code == 0 || ERR_SYSTEM_ERROR(code)) return {};
  if (is_no_tls(code)) return describe_no_tls(connects);
  const int reason = ERR_GET_REASON(code);
  const std::string other = connects ? "the server" : "the client";
  if (by_key && connects &&
      (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
       reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR))
    return other + " does not accept this key: it is another file system's, or the server uses certificates (tls.ca)";
  const auto* const known = std::ranges::find(kReasons, reason, &Reason::code);
  if (known != kReasons.end()) return *known->text == '\0' ? std::string() : other + " " + known->text;
  const char* const text = ::ERR_reason_error_string(code);
  return other + " breaks TLS: " + (text != nullptr ? text : "unknown error");
}

std::string describe_certificate_fault(long code, const std::string& host) {
  switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return "has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID: return "is not valid yet (look at the clocks)";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: return "is self-signed, not signed by tls.ca";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: return "is not signed by tls.ca";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return "is for another host, not for " + host;
    case X509_V_ERR_CERT_REVOKED: return "was revoked (tls.revoked)";
    case X509_V_ERR_CRL_HAS_EXPIRED:
      return "cannot be checked: the list of revoked certificates (tls.revoked) has expired";
    case X509_V_ERR_CRL_NOT_YET_VALID:
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
      return "cannot be checked: tls.revoked has no valid list of the authority that signed it";
    case X509_V_ERR_INVALID_PURPOSE: return "is for another use (extendedKeyUsage)";
    default: return std::string("is refused: ") + ::X509_verify_cert_error_string(code);
  }
}

}  // namespace spate::tls
