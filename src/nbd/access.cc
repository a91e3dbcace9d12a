// SPDX-License-Identifier: Apache-2.0
#include "nbd/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace spate::nbd {
namespace {

Error no_rule(std::string_view text) {
  return {Errc::kInvalidArgument,
          "\"" + std::string(text) + "\" is no address, network (10.0.0.0/8), \"unix\", cert:NAME or psk:NAME"};
}

bool same_bits(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b, unsigned bits) {
  for (std::size_t i = 0; i < a.size() && bits > 0; ++i) {
    const unsigned here = bits < 8 ? bits : 8;
    const auto mask = static_cast<std::uint8_t>(0xff00U >> here);
    if (((a[i] ^ b[i]) & mask) != 0) return false;
    bits -= here;
  }
  return true;
}

}  // namespace

Result<AccessList::Rule> AccessList::parse_rule(std::string_view text) {
  Rule rule;
  if (text == "unix") return rule;
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  const int family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  rule.ip.resize(family == AF_INET ? 4 : 16);
  if (::inet_pton(family, address.c_str(), rule.ip.data()) != 1) return no_rule(text);
  rule.bits = static_cast<unsigned>(rule.ip.size() * 8);
  if (slash == std::string_view::npos) return rule;
  const std::string_view bits = text.substr(slash + 1);
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(bits.data(), bits.data() + bits.size(), value);
  if (error != std::errc() || stop != bits.data() + bits.size() || value > rule.bits) return no_rule(text);
  rule.bits = value;
  return rule;
}

Result<AccessList> AccessList::parse(std::string_view text) {
  AccessList list;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (word.starts_with(kCertificate) || word.starts_with(kKey)) {
      if (word.size() == word.find(':') + 1) return no_rule(word);
      list.identities_.emplace_back(word);
    } else {
      SPATE_TRY(Rule rule, parse_rule(word));
      list.rules_.push_back(std::move(rule));
    }
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (comma != std::string_view::npos && text.empty()) return no_rule("");
  }
  return list;
}

bool AccessList::allows(const std::vector<std::uint8_t>& ip, const std::vector<std::string>& identities) const {
  const bool here = std::ranges::any_of(
      rules_, [&](const Rule& rule) { return rule.ip.size() == ip.size() && same_bits(rule.ip, ip, rule.bits); });
  if (here && ip.empty()) return true;
  if (!here && !rules_.empty()) return false;
  return identities_.empty() || std::ranges::find_first_of(identities_, identities) != identities_.end();
}

bool AccessList::names(std::string_view kind) const {
  return std::ranges::any_of(identities_, [&](const std::string& one) { return one.starts_with(kind); });
}

}  // namespace spate::nbd
