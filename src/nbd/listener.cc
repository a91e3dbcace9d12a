// SPDX-License-Identifier: Apache-2.0
#include "nbd/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace spate::nbd {
namespace {

/// Send buffer of a Unix socket, bytes, as far as net.core.wmem_max allows. By default one reply of 256 KiB fills it,
/// and then the kernel reports room only when three quarters have been read. Measured: bench/nbd.
constexpr int kUnixSendBytes = 1024 * 1024;

constexpr int kBacklog = 1024;

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNIX) return true;
  if (address.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24U) == 127;
  }
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& a = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&a) || (IN6_IS_ADDR_V4MAPPED(&a) && a.s6_addr[12] == 127);
}

/// "127.0.0.1:80", "[::1]:80".
std::string text_of(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(in.sin_port));
  }
  const auto& in6 = reinterpret_cast<const sockaddr_in6&>(address);
  ::inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof host);
  return "[" + std::string(host) + "]:" + std::to_string(ntohs(in6.sin6_port));
}

std::vector<std::uint8_t> ip_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr);
    return {at, at + 4};
  }
  if (address.ss_family != AF_INET6) return {};
  const in6_addr& a = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&a)) return {a.s6_addr + 12, a.s6_addr + 16};
  return {a.s6_addr, a.s6_addr + 16};
}

/// Sets url and loopback from the address that the socket is bound to.
Result<void> describe(ListeningSocket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return errno_error(errno, "getsockname");
  socket.loopback = is_loopback(address);
  if (address.ss_family == AF_UNIX) {
    socket.url = "nbd+unix:///?socket=" + std::string(reinterpret_cast<const sockaddr_un&>(address).sun_path);
  } else if (address.ss_family == AF_INET || address.ss_family == AF_INET6) {
    socket.url = "nbd://" + text_of(address);
  } else {
    return Error(Errc::kNotSupported, "a listening socket that is neither TCP nor Unix");
  }
  return {};
}

Result<ListeningSocket> listen_at(const addrinfo& info, std::uint16_t port) {
  ListeningSocket socket;
  socket.fd = UniqueFd(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.fd) return errno_error(errno, "socket");
  const int one = 1;
  ::setsockopt(socket.fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (info.ai_family == AF_INET6) ::setsockopt(socket.fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  sockaddr_storage address{};
  std::memcpy(&address, info.ai_addr, info.ai_addrlen);
  // Both kinds of addresses have the port at the same offset.
  reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  if (::bind(socket.fd.get(), reinterpret_cast<sockaddr*>(&address), info.ai_addrlen) != 0 ||
      ::listen(socket.fd.get(), kBacklog) != 0) {
    return errno_error(errno, "listen at " + text_of(address));
  }
  SPATE_TRY(std::ignore, describe(socket));
  return socket;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error(Errc::kNameTooLong, "the path of a Unix socket has 1 to " +
                                         std::to_string(sizeof address.sun_path - 1) + " characters: " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Removes a socket file if nobody listens on it any more.
Result<void> clear_place(const std::string& path, const sockaddr_un& address) {
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) return {};
  if (!S_ISSOCK(st.st_mode)) return Error(Errc::kExists, path + " is there and is no socket");
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return errno_error(errno, "socket");
  const int failed = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (failed == 0 || errno != ECONNREFUSED) return Error(Errc::kBusy, "somebody listens at " + path + " already");
  if (::unlink(path.c_str()) != 0) return errno_error(errno, "remove " + path);
  return {};
}

std::uint64_t number_from_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return 0;
  std::uint64_t value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end ? value : 0;
}

}  // namespace

Result<std::vector<ListeningSocket>> listen_tcp(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Error(Errc::kBadAddress, "address " + host + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  std::vector<ListeningSocket> sockets;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    SPATE_TRY(auto socket, listen_at(*info, port));
    if (port == 0) port = port_of(socket.fd.get());
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

Result<ListeningSocket> listen_unix(const std::string& path) {
  SPATE_TRY(const sockaddr_un address, unix_address(path));
  SPATE_TRY(std::ignore, clear_place(path, address));
  ListeningSocket socket;
  socket.fd = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Before the socket has a name, so that no other user can ever connect.
  if (!socket.fd || ::fchmod(socket.fd.get(), 0600) != 0) return errno_error(errno, "socket");
  if (::bind(socket.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return errno_error(errno, "listen at " + path);
  socket.unix_path = RemovedAtEnd(path);
  if (::listen(socket.fd.get(), kBacklog) != 0) return errno_error(errno, "listen at " + path);
  SPATE_TRY(std::ignore, describe(socket));
  return socket;
}

Result<std::vector<ListeningSocket>> activated_sockets() {
  constexpr int kFirst = 3;  // sd_listen_fds(3)
  std::vector<ListeningSocket> sockets;
  const std::uint64_t count = number_from_environment("LISTEN_FDS");
  if (count == 0 || count > 1024 || number_from_environment("LISTEN_PID") != static_cast<std::uint64_t>(::getpid()))
    return sockets;
  for (const char* name : {"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}) ::unsetenv(name);
  for (int fd = kFirst; fd < kFirst + static_cast<int>(count); ++fd) {
    int listening = 0;
    socklen_t size = sizeof listening;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) {
      return Error(Errc::kInvalidArgument, "LISTEN_FDS: descriptor " + std::to_string(fd) + " is no listening socket");
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    ListeningSocket socket;
    socket.fd = UniqueFd(fd);
    SPATE_TRY(std::ignore, describe(socket));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

Result<Accepted> accept_client(int listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  Accepted accepted;
  accepted.fd =
      UniqueFd(::accept4(listening, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted.fd) {
    const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return exhausted ? Errc::kBusy : Errc::kTryAgain;  // otherwise the client has gone already
  }
  if (address.ss_family == AF_INET || address.ss_family == AF_INET6) {
    accepted.text = text_of(address);
    accepted.ip = ip_of(address);
    const int one = 1;
    ::setsockopt(accepted.fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::setsockopt(accepted.fd.get(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    return accepted;
  }
  ::setsockopt(accepted.fd.get(), SOL_SOCKET, SO_SNDBUF, &kUnixSendBytes, sizeof kUnixSendBytes);
  ucred who{};
  size = sizeof who;
  accepted.text = "unix";
  if (::getsockopt(accepted.fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0)
    accepted.text += " uid=" + std::to_string(who.uid);
  return accepted;
}

}  // namespace spate::nbd
