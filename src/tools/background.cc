// SPDX-License-Identifier: Apache-2.0
#include "tools/background.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace spate::tools {
namespace {

std::string pid_path(const std::string& folder, const std::string& name) { return folder + "/run/" + name + ".pid"; }

std::size_t threads_of(int pid) {
  std::error_code error;
  std::size_t count = 0;
  std::filesystem::directory_iterator at("/proc/" + std::to_string(pid) + "/task", error);
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) ++count;
  return count;
}

/// The start time of a process in clock ticks since boot; empty if it is gone. It distinguishes processes that have the
/// same pid one after the other.
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
  // The first thread may have ended while other threads still hold the process's sockets and locks.
  if ((state == "Z" || state == "X") && threads_of(pid) <= 1) return {};
  for (int i = 4; i <= 22; ++i) rest >> field;
  return field;
}

/// Whether the process was killed but is not gone yet. On a busy machine that takes a while, and until then the process
/// looks alive and holds its port.
bool is_dying(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("State:") && (line.find('Z') != std::string::npos || line.find('X') != std::string::npos))
      return true;
    if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
    const std::uint64_t pending = std::strtoull(line.c_str() + std::strlen("SigPnd:"), nullptr, 16);
    if ((pending >> (SIGKILL - 1) & 1U) != 0) return true;
  }
  return false;
}

/// Whether the process in the pid file runs; waits for one that is dying.
bool runs(int pid, const std::string& started) {
  constexpr int kMostTries = 1000;  // of 5 ms
  for (int i = 0; i < kMostTries; ++i) {
    if (start_time_of(pid) != started) return false;
    if (!is_dying(pid)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

std::string program_beside_this(const std::string& name) {
  std::error_code error;
  return (std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name).string();
}

Result<int> spawn_in_background(std::vector<std::string> arguments, std::vector<std::string> environment, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return errno_error(failed, "start " + arguments[0]);
  return static_cast<int>(pid);
}

Result<void> write_pid_file(const std::string& folder, const std::string& name, int pid) {
  const std::string started = start_time_of(pid);
  if (started.empty()) return Error::told(Errc::kNotFound, "no process " + std::to_string(pid));
  const std::string path = pid_path(folder, name);
  const std::string fresh = path + ".new";  // renamed, so that a reader sees all of it or nothing
  std::ofstream out(fresh, std::ios::trunc);
  out << pid << " " << started << "\n";
  out.close();
  if (!out || ::rename(fresh.c_str(), path.c_str()) != 0) return errno_error(errno, "write " + path);
  return {};
}

PidFileState read_pid_file(const std::string& folder, const std::string& name) {
  PidFileState state;
  std::ifstream in(pid_path(folder, name));
  int pid = 0;
  std::string started;
  const bool whole = static_cast<bool>(in >> pid >> started);
  if (whole && pid > 0 && runs(pid, started)) {
    state.pid = pid;
  } else {
    state.stale = in.is_open();
  }
  return state;
}

void remove_pid_file(const std::string& folder, const std::string& name) { ::unlink(pid_path(folder, name).c_str()); }

Result<void> end_process(int pid, const std::string& name, Duration grace) {
  const std::string started = start_time_of(pid);
  const auto gone = [&] {
    ::waitpid(pid, nullptr, WNOHANG);  // only works if this process has started it
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
    return errno_error(errno, "stop " + name + " (pid " + std::to_string(pid) + ")");
  }
  if (!started.empty() && !wait_gone(grace)) {
    ::kill(pid, SIGKILL);
    if (!wait_gone(std::chrono::seconds(5)))
      return Error::told(Errc::kTimeout, name + " with pid " + std::to_string(pid) + " does not end");
  }
  return {};
}

}  // namespace spate::tools
