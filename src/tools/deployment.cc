// SPDX-License-Identifier: Apache-2.0
#include "tools/deployment.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"
#include "config/describe.h"
#include "config/key_file.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

std::string server_name(ServerId server) { return "server-" + std::to_string(server.value); }
std::string pid_path(const std::string& folder, ServerId server) { return folder + "/run/" + server_name(server) + ".pid"; }

Result<void> make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return errno_error(error.value(), "make folder " + path);
  ::chmod(path.c_str(), 0700);
  return {};
}

Result<void> write_file(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return errno_error(errno, "create " + path);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(fd.get()) != 0) {
    return errno_error(errno, "write " + path);
  }
  return {};
}

config::ServerConfig make_server(const DeploymentPlan& plan, std::uint32_t id) {
  config::ServerConfig server;
  server.id = ServerId(id);
  server.urls = {"tcp://127.0.0.1:" + std::to_string(plan.first_port + id - 1)};
  const std::string home = plan.folder + "/" + server_name(server.id);
  server.keyval = home + "/keyval";
  if (id <= plan.meta_servers) {
    server.roles.meta = true;
  } else {
    server.roles.io = true;
    server.storage = {home + "/target-0"};
  }
  return server;
}

config::TroveKind trove_kind(const std::string& name) {
  if (name == "uring") return config::TroveKind::kUring;
  if (name == "pool") return config::TroveKind::kPool;
  if (name == "mem") return config::TroveKind::kMemory;
  return config::TroveKind::kAuto;
}

/// The start time of a process in clock ticks since boot; empty when it is gone. Tells a reused pid from the old process.
std::string start_time_of(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 2));
  std::string field;
  std::string state;
  rest >> state;
  if (state == "Z" || state == "X") return {};
  for (int i = 4; i <= 22; ++i) rest >> field;
  return field;
}

}  // namespace

std::string config_path(const std::string& folder) { return folder + "/spate.toml"; }

std::string log_path(const std::string& folder, ServerId server) { return folder + "/log/" + server_name(server) + ".log"; }

Result<void> create_deployment(const DeploymentPlan& plan, Random& random) {
  if (fs::exists(config_path(plan.folder))) return Error(Errc::kExists, config_path(plan.folder));
  for (const char* sub : {"", "/keys", "/run", "/log"}) {
    SPATE_TRY(std::ignore, make_folder(plan.folder + sub));
  }
  config::FileSystemConfig config;
  config.fs.id = FsId(random.next() | 1U);
  config.fs.client_key_file = plan.folder + "/keys/client.key";
  config.fs.server_key_file = plan.folder + "/keys/server.key";
  for (std::uint32_t id = 1; id <= plan.meta_servers + plan.io_servers; ++id) {
    config::ServerConfig server = make_server(plan, id);
    server.trove = trove_kind(plan.trove);
    SPATE_TRY(std::ignore, make_folder(plan.folder + "/" + server_name(server.id)));
    config.servers.push_back(std::move(server));
  }
  SPATE_TRY(std::ignore, config::create_key_file(config.fs.client_key_file, random));
  SPATE_TRY(std::ignore, config::create_key_file(config.fs.server_key_file, random));
  return write_file(config_path(plan.folder), config::to_toml(config));  // last: its presence says that all is there
}

std::vector<ServerProcessState> look_at_servers(const std::string& folder, const config::FileSystemConfig& config) {
  std::vector<ServerProcessState> states;
  for (const config::ServerConfig& server : config.servers) {
    ServerProcessState state;
    state.server = server.id;
    std::ifstream in(pid_path(folder, server.id));
    int pid = 0;
    std::string started;
    if (in >> pid >> started) {
      if (pid > 0 && start_time_of(pid) == started) {
        state.pid = pid;
      } else {
        state.stale = true;
        ::unlink(pid_path(folder, server.id).c_str());
      }
    }
    states.push_back(state);
  }
  return states;
}

Result<int> start_server(const std::string& folder, ServerId server) {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  const std::string daemon = (own.parent_path() / "spated").string();
  if (::access(daemon.c_str(), X_OK) != 0) return errno_error(errno, "the server program " + daemon);
  const std::string log = log_path(folder, server);
  const UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!out) return errno_error(errno, "open " + log);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const std::string id = std::to_string(server.value);
  const std::string file = config_path(folder);
  std::string arguments[] = {daemon, "--config", file, "--server", id};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), arguments[3].data(), arguments[4].data(), nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, daemon.c_str(), &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return errno_error(failed, "start " + daemon);
  ::unlink(pid_path(folder, server).c_str());
  SPATE_TRY(std::ignore, write_file(pid_path(folder, server), std::to_string(pid) + " " + start_time_of(pid) + "\n"));
  return static_cast<int>(pid);
}

Result<void> stop_server(const std::string& folder, ServerId server, int pid, Duration grace) {
  const std::string started = start_time_of(pid);
  const auto gone = [&] {
    ::waitpid(pid, nullptr, WNOHANG);  // ours when this same process started it
    return start_time_of(pid) != started;
  };
  const auto wait_gone = [&](Duration most) {
    for (Duration waited{0}; waited < most; waited += std::chrono::milliseconds(5)) {
      if (gone()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return gone();
  };
  if (!started.empty() && ::kill(pid, SIGTERM) != 0 && errno != ESRCH) {
    return errno_error(errno, "stop server " + std::to_string(server.value) + " (pid " + std::to_string(pid) + ")");
  }
  if (!started.empty() && !wait_gone(grace)) {
    ::kill(pid, SIGKILL);
    if (!wait_gone(std::chrono::seconds(5))) return Error(Errc::kTimeout, "server with pid " + std::to_string(pid) + " does not end");
  }
  ::unlink(pid_path(folder, server).c_str());
  return {};
}

std::string log_tail(const std::string& folder, ServerId server) {
  std::ifstream in(log_path(folder, server));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
    if (lines.size() > 3) lines.erase(lines.begin());
  }
  std::string text;
  for (const std::string& line : lines) text += "\n    " + line;
  return text;
}

}  // namespace spate::tools
