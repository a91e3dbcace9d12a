// SPDX-License-Identifier: Apache-2.0
#include "tools/own_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>

#include "assembly/own_host.h"
#include "base/unique_fd.h"

namespace spate::tools {
namespace {

std::string without_brackets(const std::string& host) {
  return host.size() > 2 && host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

/// To connect a UDP socket sends nothing, but chooses the way and with it this side's address.
Result<std::string> address_of_way(const addrinfo& peer) {
  const UniqueFd socket(::socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error(errno, "make a socket");
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::connect(socket.get(), peer.ai_addr, peer.ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return errno_error(errno, "find a way");
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return Error::told(Errc::kUnreachable, "the address of this machine cannot be written as text");
  return own.ss_family == AF_INET6 ? "[" + std::string(text.data()) + "]" : std::string(text.data());
}

/// Null: it has none.
std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(without_brackets(host).c_str(), nullptr, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

}  // namespace

Result<std::string> own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(without_brackets(host).c_str(), "7400", &hints, &found);
  if (error != 0) return Error::told(Errc::kUnreachable, host + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  auto address = address_of_way(*found);
  if (!address) return Error::told(Errc::kUnreachable, "this machine has no way to " + host);
  return address;
}

Result<std::string> own_address() {
  return own_address_towards("192.0.2.1");  // of TEST-NET-1 (RFC 5737): nobody's, so the default route leads there
}

std::vector<std::string> addresses_of(const std::string& host) {
  std::vector<std::string> all;
  const auto found = look_up(host);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      all.emplace_back(text.data());
  }
  return all;
}

bool belongs_here(const config::ServerConfig& server) {
  bool only_local = true;
  for (const std::string& url : server.urls) {
    const std::optional<bool> here = assembly::is_own_url(url);
    if (here && *here) return true;
    only_local = only_local && !here;
  }
  return only_local;
}

}  // namespace spate::tools
