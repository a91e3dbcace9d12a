// SPDX-License-Identifier: Apache-2.0
#include "assembly/own_host.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cstring>

#include "base/unique_fd.h"

namespace spate::assembly {
namespace {

/// Whether a socket can be bound to the address.
bool is_own_address(const addrinfo& address) {
  sockaddr_storage any_port{};
  std::memcpy(&any_port, address.ai_addr, address.ai_addrlen);
  if (address.ai_family == AF_INET) reinterpret_cast<sockaddr_in*>(&any_port)->sin_port = 0;
  if (address.ai_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&any_port)->sin6_port = 0;
  const UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any_port), address.ai_addrlen) == 0;
}

}  // namespace

std::optional<bool> is_own_url(const std::string& url) {
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos || url.starts_with("shm:") || url.starts_with("ofi+shm:")) return std::nullopt;
  std::string host = url.substr(begin + 3, url.rfind(':') - begin - 3);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool own = false;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) own = own || is_own_address(*one);
  ::freeaddrinfo(found);
  return own;
}

}  // namespace spate::assembly
