// SPDX-License-Identifier: Apache-2.0
#include "tools/server_control.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "model/server_url.h"
#include "tools/background.h"
#include "tools/deployment.h"

namespace spate::tools {
namespace {

constexpr std::size_t kMaxQuotedBytes = 4096;

/// A datagram socket with a name that the kernel chooses, and that name in the form of NOTIFY_SOCKET.
Result<std::pair<UniqueFd, std::string>> open_ready_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_error(errno, "make a socket");
  const int yes = 1;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0)
    return errno_error(errno, "make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof address.sun_family;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return errno_error(errno, "bind a socket");
  size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return errno_error(errno, "name of a socket");
  const std::size_t length = size - offsetof(sockaddr_un, sun_path);
  return std::make_pair(std::move(socket), "@" + std::string(address.sun_path + 1, length - 1));
}

/// Whether a server has reported that it is ready. Everybody knows the socket's name, so messages of other users are
/// ignored.
bool heard_ready(int socket) {
  std::array<char, 256> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec piece{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* const part = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) return false;
  ucred who{};
  std::memcpy(&who, CMSG_DATA(part), sizeof who);
  return who.uid == ::geteuid() && std::string_view(text.data(), static_cast<std::size_t>(n)).starts_with("READY=1");
}

/// This process's environment with another NOTIFY_SOCKET.
std::vector<std::string> environment_with(const std::string& notify_socket) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("NOTIFY_SOCKET=")) all.emplace_back(*entry);
  }
  all.push_back("NOTIFY_SOCKET=" + notify_socket);
  return all;
}

/// The last message of a server that has ended, or else the end of its log.
std::string last_words(const std::string& folder, const StartedServer& started) {
  std::ifstream in(log_path(folder, started.server));
  in.seekg(static_cast<std::streamoff>(started.log_begin));
  std::string all;
  std::string message;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("spated: ")) {
      message = line.substr(8);
    } else if (!message.empty()) {
      message += "\n" + line;  // a message of several lines: mistakes in spate.toml
    }
    all += "\n    " + line;
  }
  if (!message.empty()) return message.substr(0, kMaxQuotedBytes);
  if (all.size() > kMaxQuotedBytes) all = "\n    ..." + all.substr(all.size() - kMaxQuotedBytes);
  return all.empty() ? "it said nothing" : "its log ends with" + all;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format(" (killed by signal {})", WTERMSIG(status));
  return WEXITSTATUS(status) == 1 ? "" : fmt::format(" (exit code {})", WEXITSTATUS(status));
}

Result<FolderLock> lock_path(const std::string& path, int flags, Duration timeout, const std::string& holder) {
  FolderLock lock{UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, 0600))};
  if (!lock.file) return errno_error(errno, "open " + path);
  constexpr Duration kPause = std::chrono::milliseconds(10);
  for (Duration waited{0}; ::flock(lock.file.get(), LOCK_EX | LOCK_NB) != 0; waited += kPause) {
    if (errno != EWOULDBLOCK && errno != EINTR) return errno_error(errno, "lock " + path);
    if (waited >= timeout) return Error::told(Errc::kBusy, "another " + holder);
    std::this_thread::sleep_for(kPause);
  }
  return lock;
}

}  // namespace

Result<FolderLock> lock_folder(const std::string& folder, Duration timeout) {
  return lock_path(folder + "/run/lock", O_RDWR | O_CREAT, timeout,
                   "`spate up`, `spate down`, `spate join` or `spate server add` is at work in " + folder);
}

Result<FolderLock> lock_configuration(const std::string& folder, Duration timeout) {
  // A file of its own that only this user can open. A user who may read the folder could hold a lock on it for ever.
  return lock_path(folder + "/spate.toml.lock", O_RDWR | O_CREAT | O_NOFOLLOW, timeout,
                   "`spate server add` is at work in " + folder);
}

ServerProcessState look_at_server(const std::string& folder, ServerId server) {
  const PidFileState seen = read_pid_file(folder, server_name(server));
  return {server, seen.pid, seen.stale};
}

std::vector<ServerProcessState> look_at_servers(const std::string& folder, const config::FileSystemConfig& config) {
  std::vector<ServerProcessState> states;
  for (const config::ServerConfig& server : config.servers)
    if (is_here(folder, server.id)) states.push_back(look_at_server(folder, server.id));
  return states;
}

std::vector<ServerId> servers_with_pid_files(const std::string& folder) {
  constexpr std::string_view kEnd = ".pid";
  std::vector<ServerId> servers;
  std::error_code error;
  std::filesystem::directory_iterator at(folder + "/run", error);
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::uint32_t number = 0;
    const std::size_t digits = name.find_first_of("0123456789");
    if (digits == std::string::npos) continue;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    if (name == server_name(ServerId(number)) + std::string(kEnd)) servers.emplace_back(number);
  }
  std::sort(servers.begin(), servers.end(), [](ServerId a, ServerId b) { return a.value < b.value; });
  return servers;
}

Result<void> adopt_server(const std::string& folder, ServerId server, int pid) {
  return write_pid_file(folder, server_name(server), pid);
}

void forget_server(const std::string& folder, ServerId server) { remove_pid_file(folder, server_name(server)); }

Result<StartedServer> start_server(const std::string& folder, ServerId server) {
  const std::string daemon = program_beside_this("spated");
  if (::access(daemon.c_str(), X_OK) != 0) return errno_error(errno, "the server program " + daemon);
  const std::string log = log_path(folder, server);
  ::mkdir((folder + "/log").c_str(), 0700);  // people may have removed it to make room
  const UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!out) return errno_error(errno, "open " + log);
  struct stat status{};
  StartedServer started;
  started.server = server;
  started.log_begin = ::fstat(out.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  SPATE_TRY(auto ready, open_ready_socket());
  std::vector<std::string> arguments = {daemon, "--config", config_path(folder), "--server",
                                        std::to_string(server.value)};
  if (is_unformatted(folder, server)) arguments.insert(arguments.end(), {"--format", "--serve"});
  SPATE_TRY(started.pid, spawn_in_background(std::move(arguments), environment_with(ready.second), out.get()));
  started.ready = std::move(ready.first);
  auto noted = write_pid_file(folder, server_name(server), started.pid);
  if (!noted && noted.code() != Errc::kNotFound) {  // the server has ended already: wait_ready reports the reason
    std::ignore = stop_server(folder, server, started.pid, std::chrono::seconds(2));
    return std::move(noted).error();
  }
  return started;
}

bool is_deployment(const std::string& folder) { return ::access((folder + "/run/lock").c_str(), F_OK) == 0; }

std::string commands_on_hosts(const std::string& config_file, const std::vector<config::ServerConfig>& servers,
                              std::string_view verb) {
  std::string text;
  for (const config::ServerConfig& server : servers) {
    const std::string& url = shown_url(server.urls);
    const std::size_t host = url.find("://") == std::string::npos ? 0 : url.find("://") + 3;
    text += fmt::format("\n  server {}, on {}: `systemctl {} spated@{}`", server.id.value,
                        url.substr(host, url.rfind(':') - host), verb, server.id.value);
    if (verb == "start") text += fmt::format(" or `spated --config {} --server {}`", config_file, server.id.value);
  }
  return text;
}

std::string wait_ready(const std::string& folder, const StartedServer& started, MonoTime until) {
  SystemClock clock;
  const std::string name = fmt::format("server {}", started.server.value);
  const std::string log = "\n  its log: " + log_path(folder, started.server);
  while (clock.now() < until) {
    pollfd wait{started.ready.get(), POLLIN, 0};
    std::ignore = ::poll(&wait, 1, 20);
    if (heard_ready(started.ready.get())) {
      set_formatted(folder, started.server);
      return {};
    }
    int status = 0;
    if (::waitpid(started.pid, &status, WNOHANG) == started.pid) {
      forget_server(folder, started.server);
      return name + " did not start" + how_it_ended(status) + ": " + last_words(folder, started) + log;
    }
  }
  return name + " is not ready yet" + log;
}

Result<void> stop_server(const std::string& folder, ServerId server, int pid, Duration grace) {
  SPATE_TRY(std::ignore, end_process(pid, "server " + std::to_string(server.value), grace));
  forget_server(folder, server);
  return {};
}

}  // namespace spate::tools
