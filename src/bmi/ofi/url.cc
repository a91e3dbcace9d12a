// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

#include "bmi/ofi/packet.h"

namespace spate::bmi::ofi {
namespace {

constexpr std::string_view kScheme = "ofi+";
constexpr std::string_view kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
constexpr std::string_view kHex = "0123456789abcdef";

/// Completes the name of a provider that supports only connections: ofi_rxm makes datagrams of them.
std::string provider_of(std::string_view suffix) {
  const bool messages_only = suffix == "tcp" || suffix == "verbs";
  return std::string(suffix) + (messages_only ? ";ofi_rxm" : "");
}

bool only(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

bool parse_hex(std::string_view text, Bytes& out) {
  if (text.empty() || text.size() % 2 != 0 || text.size() > 2 * kMaxAddress) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const std::size_t high = kHex.find(text[i]);
    const std::size_t low = kHex.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    out.push_back(static_cast<std::byte>(high << 4U | low));
  }
  return true;
}

bool parse_host(std::string_view rest, Target& target) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view host = rest.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (bracketed) host = host.substr(1, host.size() - 2);
  target.node = host == "localhost" ? "127.0.0.1" : std::string(host);
  const std::string_view port = rest.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size()) return false;
  target.service = std::to_string(number);
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(bracketed ? AF_INET6 : AF_INET, target.node.c_str(), bracketed ? static_cast<void*>(&v6) : &v4) == 1;
}

}  // namespace

Result<Target> parse_url(std::string_view url) {
  const auto bad = [&] {
    return Error(Errc::kBadAddress, "\"" + std::string(url) +
                                        "\" is not ofi+PROVIDER://ADDRESS:PORT (the address in numbers), "
                                        "ofi+shm://NAME or ofi+PROVIDER://@HEX");
  };
  const std::size_t end = url.find("://");
  if (!url.starts_with(kScheme) || end == std::string_view::npos || url.size() > 700) return bad();
  Target target;
  target.suffix = std::string(url.substr(kScheme.size(), end - kScheme.size()));
  if (!only(target.suffix, kWord)) return bad();
  target.provider = provider_of(target.suffix);
  const std::string_view rest = url.substr(end + 3);
  bool good = false;
  if (rest == "*") {
    target.kind = Target::Kind::kAny;
    good = true;
  } else if (rest.starts_with('@')) {
    target.kind = Target::Kind::kRaw;
    good = parse_hex(rest.substr(1), target.address);
  } else if (target.suffix == "shm") {
    target.kind = Target::Kind::kName;
    target.node = std::string(rest);
    good = rest.size() <= 100 && !rest.starts_with('.') && only(rest, std::string(kWord) + ":");
  } else if (!rest.empty()) {
    good = parse_host(rest, target);
  }
  if (!good) return bad();
  return target;
}

std::string url_of(std::string_view suffix, std::string_view text, ByteView address) {
  std::string url = std::string(kScheme) + std::string(suffix) + "://";
  if (!text.empty()) return url += text;
  url += '@';
  for (const std::byte b : address) {
    url += kHex[std::to_integer<std::size_t>(b) >> 4U];
    url += kHex[std::to_integer<std::size_t>(b) & 15U];
  }
  return url;
}

Bytes fabric_address(const Target& target) {
  if (target.kind == Target::Kind::kRaw) return target.address;
  if (target.kind == Target::Kind::kName) return to_bytes(as_bytes("fi_shm://" + target.node));
  const auto port = static_cast<std::uint16_t>(std::stoul("0" + target.service));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, target.node.c_str(), &v4.sin_addr) == 1) {
    return to_bytes(std::as_bytes(std::span(&v4, 1)));
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  (void)inet_pton(AF_INET6, target.node.c_str(), &v6.sin6_addr);
  return to_bytes(std::as_bytes(std::span(&v6, 1)));
}

}  // namespace spate::bmi::ofi
