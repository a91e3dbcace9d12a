// SPDX-License-Identifier: Apache-2.0
#include "base/local_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spate {
namespace {

/// In the order of preference. Folders that only root makes come first; anybody can create /tmp/spate-UID before the
/// user does, and it is refused then.
std::vector<std::string> candidates(uid_t user) {
  const std::string number = std::to_string(user);
  return {user == 0 ? "/run/spate-0" : "/run/user/" + number + "/spate", "/tmp/spate-" + number};
}

bool is_private(const std::string& folder, uid_t user) {
  struct stat st{};
  return ::lstat(folder.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == user && (st.st_mode & 0077U) == 0;
}

/// Whether only root and the user may rename entries of the folder, or the folder is sticky, so that users cannot
/// rename entries of others.
bool is_safe_parent(const std::string& folder, uid_t user) {
  struct stat st{};
  const std::string parent = folder.substr(0, folder.rfind('/'));
  if (::lstat(parent.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return false;
  if (st.st_uid != 0 && st.st_uid != user) return false;
  return (st.st_mode & 0022U) == 0 || (st.st_mode & S_ISVTX) != 0;
}

constexpr timeval kTimeout{5, 0};  // for a listener whose queue is full

Result<UniqueFd> packet_socket(int flags = 0) {
  UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!made) return errno_error(errno, "local socket");
  return made;
}

/// 0, or errno.
template <typename Call>
int with_address(const std::string& path, int socket, Call call) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return call(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

int connect_at(int socket, const std::string& path) { return with_address(path, socket, ::connect); }

bool somebody_listens(const std::string& path) {
  const auto probe = packet_socket(SOCK_NONBLOCK);
  // EAGAIN: the backlog is full.
  const int failed = probe ? connect_at(probe->get(), path) : 0;
  return failed == 0 || failed == EAGAIN;
}

/// A caller holds this lock while it looks at a socket and then replaces or removes it, so that callers take turns.
Result<UniqueFd> lock_folder(const std::string& folder) {
  UniqueFd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0) return errno_error(errno, "lock " + folder);
  return lock;
}

Result<UniqueFd> bind_in_place(const std::string& path, int backlog) {
  SPATE_TRY(UniqueFd made, packet_socket());
  ::unlink(path.c_str());
  const int failed = with_address(path, made.get(), ::bind);
  if (failed != 0) return errno_error(failed, "bind " + path);
  if (::listen(made.get(), backlog) != 0) return errno_error(errno, "listen at " + path);
  return made;
}

/// The process that called listen(2); 0 when nobody listens.
pid_t process_behind(const std::string& path) {
  const auto probe = packet_socket(SOCK_NONBLOCK);
  ucred who{};
  socklen_t size = sizeof who;
  if (!probe || connect_at(probe->get(), path) != 0) return 0;
  return ::getsockopt(probe->get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

}  // namespace

Result<std::string> own_socket_folder() {
  const uid_t user = ::geteuid();
  for (const std::string& folder : candidates(user)) {
    if (!is_safe_parent(folder, user)) continue;
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) continue;
    if (is_private(folder, user)) return folder;
  }
  const std::string last = candidates(user).back();
  return Error(Errc::kNotPermitted, "there is no folder for this user's sockets: " + last +
                                        " must be a folder of user " + std::to_string(user) +
                                        " with mode 0700, or not there");
}

std::vector<std::string> socket_folders_of(uid_t user) {
  std::vector<std::string> folders = candidates(user);
  std::erase_if(folders,
                [&](const std::string& folder) { return !is_safe_parent(folder, user) || !is_private(folder, user); });
  return folders;
}

Result<UniqueFd> listen_for_own_user(std::string_view name, int backlog) {
  SPATE_TRY(const std::string folder, own_socket_folder());
  const std::string path = folder + "/" + std::string(name);
  SPATE_TRY(const UniqueFd lock, lock_folder(folder));
  if (somebody_listens(path)) return Error(Errc::kBusy, "somebody listens at " + path);
  return bind_in_place(path, backlog);
}

Result<UniqueFd> listen_instead(std::string_view name, int backlog) {
  SPATE_TRY(const std::string folder, own_socket_folder());
  SPATE_TRY(const UniqueFd lock, lock_folder(folder));
  return bind_in_place(folder + "/" + std::string(name), backlog);
}

void remove_socket(std::string_view name) {
  const auto folder = own_socket_folder();
  if (folder) ::unlink((*folder + "/" + std::string(name)).c_str());
}

void remove_own_socket(std::string_view name) {
  const auto folder = own_socket_folder();
  if (!folder) return;
  const auto lock = lock_folder(*folder);
  const std::string path = *folder + "/" + std::string(name);
  if (lock && process_behind(path) == ::getpid()) ::unlink(path.c_str());
}

Result<UniqueFd> connect_to_user(uid_t user, std::string_view name) {
  for (const std::string& folder : socket_folders_of(user)) {
    SPATE_TRY(UniqueFd made, packet_socket());
    ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
    const int failed = connect_at(made.get(), folder + "/" + std::string(name));
    if (failed == EAGAIN) return Error(Errc::kTimeout, "who listens in " + folder + " does not answer");
    if (failed == EACCES) return Error(Errc::kNotPermitted, folder + " is another user's");
    if (failed != 0) continue;
    const auto listener = user_behind(made.get());
    if (!listener || (*listener != user && *listener != 0))
      return Error(Errc::kNotPermitted, "another user listens in " + folder);
    return made;
  }
  return Error(Errc::kNotFound, "nobody listens at " + std::string(name));
}

Result<uid_t> user_behind(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return errno_error(errno, "who is connected");
  return who.uid;
}

}  // namespace spate
