// SPDX-License-Identifier: Apache-2.0
#include "config/url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "model/cluster_map.h"

namespace spate::config {
namespace {

bool all_of(std::string_view text, bool (*accept)(char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), accept);
}
bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}
bool is_host_char(char c) { return is_name_char(c) || c == ':' || c == '%'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::size_t kMaxShmName = 96;

}  // namespace

UrlParts split_url(std::string_view url) {
  const std::size_t at = url.find("://");
  if (at == std::string_view::npos) return {};
  return {url.substr(0, at), url.substr(at + 3)};
}

bool has_host(std::string_view scheme) { return scheme == "tcp" || scheme == "tcp+tls" || scheme.starts_with("ofi+"); }

std::string_view host_of(std::string_view rest) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view port = rest.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (!all_of(port, is_digit) || error != std::errc() || number == 0 || number > 65535) return {};
  std::string_view host = rest.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    return all_of(host, is_host_char) ? host : std::string_view();
  }
  return all_of(host, is_name_char) ? host : std::string_view();
}

bool is_loopback(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == IN_LOOPBACKNET;
  return host == "localhost" || (::inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

bool is_local_url(std::string_view url) {
  const UrlParts parts = split_url(url);
  return !has_host(parts.scheme) || parts.scheme == "ofi+shm" || is_loopback(host_of(parts.rest));
}

bool is_name(std::string_view text) { return all_of(text, is_name_char); }

Result<void> check_url(std::string_view url) {
  const auto refuse = [&](std::string_view why) {
    return Error::told(Errc::kBadAddress, "\"" + std::string(url.substr(0, 80)) + "\" " + std::string(why));
  };
  const auto [scheme, rest] = split_url(url);
  if (url.size() > kMaxUrlBytes) return refuse("is longer than 255 characters");
  if (scheme.empty())
    return refuse("is no address: write tcp://host:port, tcp+tls://host:port, shm://name or ofi+PROVIDER://host:port");
  if (has_host(scheme)) {
    if (scheme.starts_with("ofi+") && !all_of(scheme.substr(4), is_name_char))
      return refuse("names no libfabric provider");
    if (scheme == "ofi+shm") {
      const bool name = rest.size() <= kMaxShmName && !rest.starts_with('.') && all_of(rest, is_host_char);
      return name ? Result<void>() : refuse("needs a name of at most 96 letters, digits, '.', '_', '-', ':'");
    }
    if (host_of(rest).empty()) return refuse("needs a host and a port from 1 to 65535");
    return {};
  }
  if (scheme == "shm") {
    const bool path = rest.size() > 1 && rest.starts_with('/') && !rest.ends_with('/');
    const bool name = rest.size() <= kMaxShmName && all_of(rest, is_name_char);
    if (path || name) return {};
    return refuse("needs a path, or a name of at most 96 letters, digits, '.', '_', '-'");
  }
  if (scheme == "sim") return all_of(rest, is_digit) ? Result<void>() : refuse("needs a number");
  return refuse("has an unknown scheme; there are tcp, tcp+tls, shm, ofi+PROVIDER and sim");
}

}  // namespace spate::config
