// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/endpoint.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace spate::bmi::shm {
namespace {

constexpr std::string_view kScheme = "shm://";
constexpr std::string_view kPrefix = "spate/";  // begin of abstract names
constexpr std::size_t kMaxName = 96;
constexpr std::size_t kMaxPath = 4095;
constexpr int kBacklog = 1024;

bool is_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, good);
}

/// An endpoint in the kernel's form. A path that is too long for it is reached by its folder's descriptor.
struct SocketName {
  sockaddr_un address{};
  socklen_t size = 0;
  UniqueFd folder;
};

Result<SocketName> address_of(const Endpoint& endpoint) {
  SocketName a;
  a.address.sun_family = AF_UNIX;
  std::string text = endpoint.abstract ? std::string(1, '\0') + std::string(kPrefix) + endpoint.name : endpoint.name;
  if (text.size() >= sizeof a.address.sun_path) {
    const std::size_t slash = text.rfind('/');
    a.folder.reset(::open(text.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!a.folder) return errno_error(errno, "folder of " + text);
    text = fmt::format("/proc/self/fd/{}/{}", a.folder.get(), text.substr(slash + 1));
    if (text.size() >= sizeof a.address.sun_path)
      return Error(Errc::kBadAddress, endpoint.name + ": file name too long");
  }
  std::memcpy(a.address.sun_path, text.data(), text.size());
  a.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + (endpoint.abstract ? 0 : 1));
  return a;
}

const sockaddr* raw(const SocketName& a) { return reinterpret_cast<const sockaddr*>(&a.address); }

/// Whether the socket file belongs to a server that has ended.
bool is_abandoned(const SocketName& a, const std::string& path) {
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0 || !S_ISSOCK(st.st_mode)) return false;
  const UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe && ::connect(probe.get(), raw(a), a.size) != 0 && errno == ECONNREFUSED;
}

}  // namespace

Result<Endpoint> parse_url(std::string_view url) {
  const std::string_view rest = url.starts_with(kScheme) ? url.substr(kScheme.size()) : std::string_view();
  const bool path = rest.starts_with('/');
  const bool good =
      path ? rest.size() > 1 && rest.size() <= kMaxPath && !rest.ends_with('/') && rest.find('\0') == rest.npos
           : rest == "*" || is_name(rest);
  if (!good) {
    return Error(
        Errc::kBadAddress,
        "\"" + std::string(url) + "\" is neither shm:///path/to/socket nor shm://name (1 to 96 of a-z A-Z 0-9 . _ -)");
  }
  return Endpoint{!path, std::string(rest)};
}

std::string url_of(const Endpoint& endpoint) { return std::string(kScheme) + endpoint.name; }

Endpoint named(Endpoint endpoint, Random& random) {
  if (endpoint.abstract && endpoint.name == "*") endpoint.name = fmt::format("any-{:016x}", random.next());
  return endpoint;
}

Result<UniqueFd> make_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error(errno, "socket");
  return socket;
}

Result<UniqueFd> listen_on(const Endpoint& endpoint, bool for_all_users) {
  SPATE_TRY(const SocketName address, address_of(endpoint));
  SPATE_TRY(UniqueFd socket, make_socket());
  int failed = ::bind(socket.get(), raw(address), address.size) == 0 ? 0 : errno;
  if (failed == EADDRINUSE && !endpoint.abstract && is_abandoned(address, endpoint.name)) {
    ::unlink(endpoint.name.c_str());
    failed = ::bind(socket.get(), raw(address), address.size) == 0 ? 0 : errno;
  }
  if (failed == EADDRINUSE) return Error::told(Errc::kExists, "another server listens on " + url_of(endpoint));
  if (failed != 0) return errno_error(failed, "listen on " + url_of(endpoint));
  // Users that may not connect cannot reach the socket at all. The kernel tells who the others are.
  if (!endpoint.abstract && ::chmod(endpoint.name.c_str(), for_all_users ? 0666 : 0600) != 0) {
    return errno_error(errno, "rights of " + endpoint.name);
  }
  if (::listen(socket.get(), kBacklog) != 0) return errno_error(errno, "listen on " + url_of(endpoint));
  return socket;
}

int connect_to(int socket, const Endpoint& endpoint) {
  const Result<SocketName> address = address_of(endpoint);
  if (!address) return ENOENT;
  while (::connect(socket, raw(*address), address->size) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Result<Credentials> peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return errno_error(errno, "SO_PEERCRED");
  return Credentials{credentials.uid, credentials.pid};
}

std::string reached_url(int socket, bool connected) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  auto* const raw_address = reinterpret_cast<sockaddr*>(&address);
  const int failed = connected ? ::getpeername(socket, raw_address, &size) : ::getsockname(socket, raw_address, &size);
  const std::size_t before = offsetof(sockaddr_un, sun_path);
  if (failed != 0 || size <= before + 1) return {};
  std::string_view name(address.sun_path, std::min<std::size_t>(size, sizeof address) - before);
  const bool abstract = name.front() == '\0';
  if (abstract) {
    name.remove_prefix(1);
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  } else {
    name = name.substr(0, name.find('\0'));
  }
  return std::string(kScheme) + std::string(name);
}

}  // namespace spate::bmi::shm
