// SPDX-License-Identifier: Apache-2.0
#include "tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <string_view>

namespace spate::tls {
namespace {

std::optional<std::chrono::sys_seconds> time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ::ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(::timegm(&parts)));
}

std::string_view view_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(::ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(::ASN1_STRING_length(text))};
}

std::string address_of(std::string_view bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  if (family == AF_INET6 && bytes.size() != sizeof(in6_addr)) return "?";
  return ::inet_ntop(family, bytes.data(), text.data(), text.size()) != nullptr ? text.data() : "?";
}

std::string names_of(const X509* certificate) {
  std::string all;
  auto* const names =
      static_cast<GENERAL_NAMES*>(::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    all += all.empty() ? "" : ", ";
    all += name->type == GEN_DNS ? std::string(view_of(name->d.dNSName)) : address_of(view_of(name->d.iPAddress));
  }
  ::GENERAL_NAMES_free(names);
  return all;
}

std::optional<std::chrono::sys_seconds> first_end_of_lists(X509_STORE* store) {
  std::optional<std::chrono::sys_seconds> first;
  const STACK_OF(X509_OBJECT)* const all = ::X509_STORE_get0_objects(store);
  for (int i = 0; i < sk_X509_OBJECT_num(all); ++i) {
    const X509_CRL* const list = ::X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(all, i));
    const auto end = list == nullptr ? std::nullopt : time_of(::X509_CRL_get0_nextUpdate(list));
    if (end && (!first || *end < *first)) first = end;
  }
  return first;
}

}  // namespace

std::optional<Facts> facts_of(SSL_CTX* context) {
  const X509* const certificate = ::SSL_CTX_get0_certificate(context);
  if (certificate == nullptr) return std::nullopt;
  const auto from = time_of(::X509_get0_notBefore(certificate));
  const auto to = time_of(::X509_get0_notAfter(certificate));
  if (!from || !to) return std::nullopt;
  return Facts{*from, *to, names_of(certificate), first_end_of_lists(::SSL_CTX_get_cert_store(context))};
}

}  // namespace spate::tls
