// SPDX-License-Identifier: Apache-2.0
#include "preload/start_broker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <vector>

#include "base/local_socket.h"
#include "preload/broker/channel.h"
#include "preload/front_link.h"

namespace spate::preload {
namespace {

namespace fs = std::filesystem;

constexpr int kBacklog = 256;
constexpr int kListening = 3;  // the number at which spate-broker expects the socket
constexpr int kAside = 10;     // above the numbers that are set up

/// Looks in the folder beside that of the libraries, which is right in the build folder and where Spate is installed.
std::string find_program() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<void*>(&start_broker), &own) == 0) return {};
  const fs::path folder = fs::path(own.dli_fname).parent_path();
  for (const fs::path& place : {folder / "../bin", folder / "../../bin"}) {
    const std::string file = (place / "spate-broker").lexically_normal().string();
    if (raw(SYS_access, file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

/// A copy of the environment without this library.
std::vector<char*> environment() {
  std::vector<char*> all;
  for (char** word = environ; word != nullptr && *word != nullptr; ++word) {
    if (!std::string_view(*word).starts_with("LD_PRELOAD=")) all.push_back(*word);
  }
  all.push_back(nullptr);
  return all;
}

struct Start {
  const char* program;
  char* const* words;
  char* const* environment;
  int listening;
};

/// Runs in a copy of the program's process, so it makes only system calls.
[[noreturn]] void become_broker(const Start& start) {
  raw(SYS_setsid);
  if (raw(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
    const long listening = raw(SYS_fcntl, start.listening, F_DUPFD, kAside);
    const long null = raw(SYS_open, "/dev/null", O_RDWR);
    const long aside = raw(SYS_fcntl, null, F_DUPFD, kAside);
    for (int n = 0; n < kListening; ++n) raw(SYS_dup2, aside, n);
    raw(SYS_dup2, listening, kListening);
    raw(SYS_close_range, kListening + 1, ~0U, 0);
    raw(SYS_chdir, "/");
    const std::uint64_t none = 0;
    raw(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof none);
    raw(SYS_execve, start.program, start.words, start.environment);
  }
  for (;;) raw(SYS_exit_group, 0);
}

}  // namespace

Result<void> start_broker(const BrokerPlace& place) {
  std::string program = find_program();
  if (program.empty()) return Error(Errc::kNoLocks, "spate-broker is not in ../bin of the preload library's folder");
  auto listening = listen_for_own_user(broker_name(place.id), kBacklog);
  if (!listening && listening.code() == Errc::kBusy) return {};  // another process was faster
  if (!listening) return Error(Errc::kNoLocks, listening.error().message());
  std::string config = place.config_file;
  std::string name = broker_name(place.id);
  std::array<char*, 4> words{program.data(), config.data(), name.data(), nullptr};
  const std::vector<char*> variables = environment();
  const Start start{program.c_str(), words.data(), variables.data(), listening->get()};
  const long child = raw(SYS_clone, 0, 0, 0, 0, 0);  // its end sends no signal, and no wait() of the program finds it
  if (child == 0) become_broker(start);
  if (failed(child)) return errno_error(static_cast<int>(-child), "start spate-broker");
  while (raw(SYS_wait4, child, nullptr, __WALL, nullptr) == -EINTR) {
  }
  return {};
}

}  // namespace spate::preload
