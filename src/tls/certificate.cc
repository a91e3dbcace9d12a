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

}  // namespace

std::optional<Facts> facts_of(const X509* certificate) {
  if (certificate == nullptr) return std::nullopt;
  const auto from = time_of(::X509_get0_notBefore(certificate));
  const auto to = time_of(::X509_get0_notAfter(certificate));
  if (!from || !to) return std::nullopt;
  return Facts{*from, *to, names_of(certificate)};
}

}  // namespace spate::tls
