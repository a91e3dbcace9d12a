// SPDX-License-Identifier: Apache-2.0
// Endpoint: host and port of a tcp URL, and the sockets made from it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::bmi::tcp {

/// An IPv4 or IPv6 address with its port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  std::uint16_t port() const;
  /// The address as text: "10.0.0.7:7400", "[::1]:7400".
  std::string text() const;
  /// Whether both are the same host; the port does not matter.
  bool same_host(const SocketAddress& other) const;
  /// The source of a connection, for limits on sources: the IPv4 address, or the IPv6 network of 64 bits, as bytes.
  std::string source() const;
};

/// A parsed "tcp://host:port" or "tcp+tls://host:port". `addresses` is known at once for numeric hosts and "localhost";
/// for other names the resolver finds it.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  bool secure = false;  // tcp+tls
  bool named = false;   // the host is a name that the resolver looks up
  std::vector<SocketAddress> addresses;
};

/// Host: a name, an IPv4 address, an IPv6 address in brackets, or "*" (any, for listening). Port 0 to 65535.
/// kBadAddress otherwise.
Result<Endpoint> parse_url(std::string_view url);

/// The addresses of a name, by getaddrinfo. Blocks. Empty if there are none.
std::vector<SocketAddress> resolve(const std::string& host, std::uint16_t port);

/// A non-blocking socket that listens. kExists, with the URL, when the port is in use.
Result<UniqueFd> listen_on(const Endpoint& endpoint);

/// The URL of a listening socket for other processes: with its real port, and with this host's name in place of "any".
std::string advertised_url(const Endpoint& endpoint, int socket);

/// "tcp://10.0.0.7:7400", or "tcp+tls://...". An IPv4 address gives the same text as its IPv6 form, which the other
/// side may see.
std::string reached_url(const SocketAddress& address, bool secure);

/// A non-blocking socket whose connect(2) has begun.
Result<UniqueFd> begin_connect(const SocketAddress& address);
/// Sets the options of every connection. `notsent_lowat_bytes`: how much may wait unsent in the kernel; 0 sets no
/// limit.
void set_connection_options(int socket, std::uint32_t notsent_lowat_bytes);

/// Payload bytes of a full packet of a connected socket; at least 1, also if it is unknown.
std::uint64_t segment_bytes(int socket);

SocketAddress local_address(int socket);
SocketAddress remote_address(int socket);

}  // namespace spate::bmi::tcp
