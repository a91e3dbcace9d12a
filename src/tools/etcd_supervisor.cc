// SPDX-License-Identifier: Apache-2.0
// The process that keeps one member of etcd running.
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tools/etcd_members.h"
#include "tools/output.h"

namespace spate::tools {
namespace {

constexpr std::chrono::milliseconds kFirstPause(200);
constexpr std::chrono::milliseconds kLongestPause(10'000);
constexpr std::chrono::seconds kRanWell(10);     // after a run this long, the pause begins small again
constexpr std::chrono::seconds kMemberGrace(3);  // then SIGKILL, which loses nothing: records are synced

pid_t start(const std::string& program, const std::string& settings) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the supervisor ended before the prctl call
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execl(program.c_str(), program.c_str(), "--config-file", settings.c_str(), nullptr);
  ::_exit(127);
}

/// Waits for a signal of the set, at most `most`. 0: none came.
int wait_signal(const sigset_t& set, std::chrono::milliseconds most) {
  const timespec time{most.count() / 1000, most.count() % 1000 * 1'000'000};
  const int signal = ::sigtimedwait(&set, nullptr, &time);
  return signal > 0 ? signal : 0;
}

/// Sleeps for `pause`, even if children end meanwhile. True: a signal has told this process to end.
bool pause_for(std::chrono::milliseconds pause, const sigset_t& set) {
  const auto until = std::chrono::steady_clock::now() + pause;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    const int signal = wait_signal(set, left);
    if (signal == SIGTERM || signal == SIGINT) return true;
  }
}

/// Waits until the child ends (false), or until a signal tells this process to end (true; the child is ended, too).
bool watch(pid_t child, const sigset_t& set) {
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    const int signal = wait_signal(set, std::chrono::hours(1));
    if (signal != SIGTERM && signal != SIGINT) continue;
    ::kill(child, SIGTERM);
    const auto until = std::chrono::steady_clock::now() + kMemberGrace;
    while (::waitpid(child, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) ::kill(child, SIGKILL);
      wait_signal(set, std::chrono::milliseconds(50));
    }
    return true;
  }
  return false;
}

}  // namespace

int keep_member(const std::string& folder, const std::string& name) {
  const auto program = etcd_program();
  if (!program) {
    print(fmt::format("spate: {}\n", program.error().message()));
    return kExitFailed;
  }
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    if (const auto good = check_records(folder, name); !good) {
      print(fmt::format("spate: {}\n", good.error().message()));
      return kExitFailed;
    }
    const auto begun = std::chrono::steady_clock::now();
    const pid_t child = start(*program, member_settings(folder, name));
    if (child > 0 && watch(child, set)) return kExitOk;
    if (std::chrono::steady_clock::now() - begun > kRanWell) pause = kFirstPause;
    print(fmt::format("spate: {} has ended; it is started again\n", name));
    if (pause_for(pause, set)) return kExitOk;
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace spate::tools
