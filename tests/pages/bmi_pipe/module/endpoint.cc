// SPDX-License-Identifier: Apache-2.0
#include "bmi/pipe/endpoint.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/local_socket.h"
#include "base/retried.h"

namespace spate::bmi::pipe {
namespace {

constexpr std::string_view kScheme = "pipe://";
constexpr std::string_view kPrefix("\0spate-pipe/", 12);  // of the abstract names
constexpr std::size_t kMaxName = 92;
constexpr int kBacklog = 1024;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

struct SocketName {
  explicit SocketName(const Endpoint& endpoint) {
    const std::string text = std::string(kPrefix) + endpoint.name;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, text.data(), text.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};
static_assert(kPrefix.size() + kMaxName <= sizeof(sockaddr_un::sun_path));

Result<UniqueFd> make_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error(errno, "socket");
  return socket;
}

}  // namespace

Result<Endpoint> parse_url(std::string_view url) {
  const std::string_view name = url.starts_with(kScheme) ? url.substr(kScheme.size()) : std::string_view();
  const bool good = !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, is_name_char);
  if (good || name == "*") return Endpoint{std::string(name)};
  return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" is not pipe://name (1 to 92 of a-z A-Z 0-9 . _ -)");
}

std::string url_of(const Endpoint& endpoint) { return std::string(kScheme) + endpoint.name; }

Endpoint named(Endpoint endpoint, Random& random) {
  if (endpoint.name == "*") endpoint.name = "any-" + std::to_string(random.next());
  return endpoint;
}

Result<UniqueFd> listen_on(const Endpoint& endpoint) {
  const SocketName name(endpoint);
  SPATE_TRY(UniqueFd socket, make_socket());
  const bool listens = ::bind(socket.get(), name.raw(), name.size) == 0 && ::listen(socket.get(), kBacklog) == 0;
  if (listens) return socket;
  if (errno == EADDRINUSE) return Error::told(Errc::kExists, "another process listens on " + url_of(endpoint));
  return errno_error(errno, "listen on " + url_of(endpoint));
}

Result<UniqueFd> connect_to(const Endpoint& endpoint) {
  const SocketName name(endpoint);
  SPATE_TRY(UniqueFd socket, make_socket());
  if (retried([&] { return ::connect(socket.get(), name.raw(), name.size); }) == 0) return socket;
  if (errno == ECONNREFUSED) return Error(Errc::kUnreachable, "nobody listens there on this host");
  if (errno == EAGAIN) return Error(Errc::kUnreachable, "too many processes are connecting to it");
  return errno_error(errno, "connect");
}

bool is_trusted(int socket) {
  const Result<uid_t> user = user_behind(socket);
  return user && (*user == ::geteuid() || *user == 0);
}

}  // namespace spate::bmi::pipe
