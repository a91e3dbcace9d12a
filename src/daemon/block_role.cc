// SPDX-License-Identifier: Apache-2.0
#include "daemon/block_role.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/retried.h"
#include "log/log.h"

namespace spate::daemon {
namespace {

std::vector<std::string> words_of(const assembly::ServerSettings& settings) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> words{(self.parent_path() / "spate-export").string(),
                                 "--server=" + std::to_string(settings.server.value), "--fs=" + settings.config_file,
                                 "--quiet"};
  for (const config::Override& one : settings.overrides) words.push_back("--set=" + one.key + "=" + one.value);
  return words;
}

/// Runs in the child between fork and exec, so it makes only system calls.
[[noreturn]] void become(char* const* words, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == parent) ::execv(words[0], words);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<BlockRole>> BlockRole::start(const assembly::ServerSettings& settings,
                                                    std::function<void()> on_end) {
  std::vector<std::string> words = words_of(settings);
  if (::access(words[0].c_str(), X_OK) != 0) return errno_error(errno, "role block: start " + words[0]);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return errno_error(errno, "role block: fork");
  if (child == 0) become(pointers.data(), parent);
  return std::unique_ptr<BlockRole>(new BlockRole(child, std::move(on_end)));
}

BlockRole::BlockRole(pid_t child, std::function<void()> on_end) : child_(child), on_end_(std::move(on_end)) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask: other threads handle signals
  waiter_ = std::thread([this] { wait(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BlockRole::~BlockRole() {
  ask_to_end();
  waiter_.join();
}

bool BlockRole::ask_to_end() {
  asked_ = true;
  const pid_t child = child_;
  return child != 0 && ::kill(child, SIGTERM) == 0;
}

/// Clears child_ before it reaps the child, so that ask_to_end() never signals a process that has got the same number.
void BlockRole::wait() {
  const pid_t child = child_;
  siginfo_t how{};
  retried([&] { return ::waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOWAIT); });
  child_ = 0;
  int status = 0;
  retried([&] { return ::waitpid(child, &status, 0); });
  failed_ = !asked_ || status != 0;
  if (failed_)
    SPATE_LOG("daemon", error, "the process of the role block has ended; the log above has the reason status={:#x}",
              status);
  on_end_();
}

}  // namespace spate::daemon
