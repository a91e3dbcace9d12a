// SPDX-License-Identifier: Apache-2.0
#include "tls/openssl.h"

#include <openssl/err.h>

#include <system_error>

#include "base/secret_file.h"

namespace spate::tls {
namespace {

/// Without it OpenSSL would ask for the password of a private key on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return 0; }

}  // namespace

Error openssl_error(const std::string& what) {
  const unsigned long code = ::ERR_peek_error();
  const char* const reason = ::ERR_reason_error_string(code);
  std::string why = reason != nullptr ? reason : "unknown error";
  if (ERR_SYSTEM_ERROR(code)) why = std::generic_category().message(ERR_GET_REASON(code));
  ::ERR_clear_error();
  return Error::told(Errc::kInvalidArgument, what + ": " + why);
}

Result<void> use_certificate(SSL_CTX* context, const std::string& certificate, const std::string& key) {
  ::ERR_clear_error();
  ::SSL_CTX_set_default_passwd_cb(context, &no_password);
  if (::SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) return openssl_error(certificate);
  SPATE_TRY(std::ignore, check_secret_file(key, kBeyondGroupReading));
  if (::SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      ::SSL_CTX_check_private_key(context) == 1) {
    return {};
  }
  const int reason = ERR_GET_REASON(::ERR_peek_last_error());
  if (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH) {
    ::ERR_clear_error();
    return Error::told(Errc::kInvalidArgument, key + " is not the key of " + certificate);
  }
  return openssl_error(key);
}

}  // namespace spate::tls
