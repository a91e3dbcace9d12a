// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <tuple>

namespace spate::bmi::tcp {
namespace {

constexpr std::string_view kPlain = "tcp://";
constexpr std::string_view kSecure = "tcp+tls://";

std::string_view scheme_of(bool secure) { return secure ? kSecure : kPlain; }

SocketAddress make_v4(in_addr ip, std::uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  v4->sin_family = AF_INET;
  v4->sin_port = htons(port);
  v4->sin_addr = ip;
  address.size = sizeof *v4;
  return address;
}

SocketAddress make_v6(const in6_addr& ip, std::uint16_t port) {
  SocketAddress address;
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  v6->sin6_addr = ip;
  address.size = sizeof *v6;
  return address;
}

std::vector<SocketAddress> numeric(const std::string& host, std::uint16_t port) {
  in_addr v4{};
  in6_addr v6{};
  if (host == "*") return {make_v4(in_addr{INADDR_ANY}, port)};
  if (host == "localhost") return {make_v4(in_addr{htonl(INADDR_LOOPBACK)}, port)};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return {make_v4(v4, port)};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return {make_v6(v6, port)};
  return {};
}

bool is_any(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr) != 0;
}

void set_option(int socket, int level, int option, int value) {
  // The result does not matter. Without an option the connection works, only less well.
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

std::string url_of(bool secure, std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return std::string(scheme_of(secure)) + (v6 ? "[" : "") + std::string(host) + (v6 ? "]:" : ":") +
         std::to_string(port);
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> ip{};
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, ip.data(), ip.size());
    return std::string(ip.data()) + ":" + std::to_string(port());
  }
  inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, ip.data(), ip.size());
  return "[" + std::string(ip.data()) + "]:" + std::to_string(port());
}

std::string SocketAddress::source() const {
  constexpr std::size_t kV4Bytes = 4;
  constexpr std::size_t kNetworkBytes = 8;
  const auto bytes = [](const void* at, std::size_t size) { return std::string(static_cast<const char*>(at), size); };
  if (storage.ss_family == AF_INET) return bytes(&reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, kV4Bytes);
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  return IN6_IS_ADDR_V4MAPPED(&ip) != 0 ? bytes(&ip.s6_addr[sizeof ip - kV4Bytes], kV4Bytes)
                                        : bytes(&ip.s6_addr, kNetworkBytes);
}

bool SocketAddress::same_host(const SocketAddress& other) const {
  if (storage.ss_family != other.storage.ss_family) return false;
  if (storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(&other.storage)->sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(&other.storage)->sin6_addr, sizeof(in6_addr)) == 0;
}

Result<Endpoint> parse_url(std::string_view url) {
  const auto bad = [&] {
    return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" is neither tcp://host:port nor tcp+tls://host:port");
  };
  const bool secure = url.starts_with(kSecure);
  if (!url.starts_with(scheme_of(secure)) || url.size() > 300) return bad();
  const std::string_view rest = url.substr(scheme_of(secure).size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad();
  std::string_view host = rest.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  const std::string_view allowed = bracketed ? "0123456789abcdefABCDEF:." : kNameCharacters;
  if (host.empty() || (host != "*" && host.find_first_not_of(allowed) != std::string_view::npos)) return bad();
  const std::string_view port_text = rest.substr(colon + 1);
  Endpoint endpoint;
  endpoint.secure = secure;
  endpoint.host = std::string(host);
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), endpoint.port);
  if (error != std::errc() || end != port_text.data() + port_text.size()) return bad();
  endpoint.addresses = numeric(endpoint.host, endpoint.port);
  endpoint.named = endpoint.addresses.empty();
  if (bracketed && endpoint.named) return bad();
  return endpoint;
}

std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  std::vector<SocketAddress> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  return addresses;
}

Result<UniqueFd> listen_on(const Endpoint& endpoint) {
  const std::string url = url_of(endpoint.secure, endpoint.host, endpoint.port);
  // Listening belongs to the start, not to the traffic. So the look-up of a name may block here.
  const auto addresses = endpoint.addresses.empty() ? resolve(endpoint.host, endpoint.port) : endpoint.addresses;
  if (addresses.empty()) return Error(Errc::kBadAddress, url + ": no such host");
  const SocketAddress& address = addresses.front();
  UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error(errno, "socket for " + url);
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn
  const bool bound = ::bind(socket.get(), address.get(), address.size) == 0;
  if (bound && ::listen(socket.get(), kBacklog) == 0) return socket;
  if (errno == EADDRINUSE) {
    return Error::told(Errc::kExists, url + " is in use by another process: stop it, or choose another port");
  }
  return errno_error(errno, "listen on " + url);
}

std::string advertised_url(const Endpoint& endpoint, int socket) {
  const SocketAddress local = local_address(socket);
  std::string host = endpoint.host;
  if (is_any(local)) {
    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') host = name.data();
  }
  return url_of(endpoint.secure, host, local.port());
}

std::string reached_url(const SocketAddress& address, bool secure) {
  if (address.size == 0) return {};
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  if (address.storage.ss_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) == 0)
    return std::string(scheme_of(secure)) + address.text();
  in_addr v4{};
  std::memcpy(&v4, &v6->sin6_addr.s6_addr[12], sizeof v4);
  return std::string(scheme_of(secure)) + make_v4(v4, address.port()).text();
}

Result<UniqueFd> begin_connect(const SocketAddress& address) {
  UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error(errno, "socket");
  if (::connect(socket.get(), address.get(), address.size) == 0 || errno == EINPROGRESS || errno == EINTR)
    return socket;
  return errno_error(errno, "connect to " + address.text());
}

void set_connection_options(int socket, std::uint32_t notsent_lowat_bytes) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // A peer whose machine died is noticed after about a minute and a half, even when nothing is sent to it.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (notsent_lowat_bytes > 0) {
    set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(notsent_lowat_bytes));
  }
}

std::uint64_t segment_bytes(int socket) {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &value, &size) != 0 || value < 1) return 1;
  return static_cast<std::uint64_t>(value);
}

SocketAddress local_address(int socket) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (::getsockname(socket, address.get(), &address.size) != 0) address = SocketAddress();
  return address;
}

SocketAddress remote_address(int socket) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (::getpeername(socket, address.get(), &address.size) != 0) address = SocketAddress();
  return address;
}

}  // namespace spate::bmi::tcp
