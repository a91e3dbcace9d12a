// SPDX-License-Identifier: Apache-2.0
#include "preload/front_link.h"

#include <fcntl.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "wire/meta_messages.h"

namespace spate::preload {
namespace {

const Front* the_front = nullptr;

/// The kernel's own form of sigaction(2).
struct KernelAction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

/// Whether the kernel's default for the signal is to ignore it.
bool is_ignored_by_default(int number) {
  return number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;
}

/// Pending signals that the program does not block. They are pending because a call is under way.
std::uint64_t waiting_signals() {
  std::uint64_t waiting = 0;
  raw(SYS_rt_sigpending, &waiting, sizeof waiting);
  return waiting & ~front().thread()->program_mask;
}

unsigned read_umask() {
  const long file = raw(SYS_open, "/proc/self/status", O_RDONLY | O_CLOEXEC);
  std::array<char, 1024> text{};
  const long size = raw(SYS_read, file, text.data(), text.size() - 1);
  raw(SYS_close, file);
  const char* const line = failed(size) ? nullptr : std::strstr(text.data(), "Umask:");
  return line == nullptr ? 022U : static_cast<unsigned>(std::strtoul(line + 6, nullptr, 8));
}

}  // namespace

void set_front(const Front& front) { the_front = &front; }

const Front& front() { return *the_front; }

void let_default_signals_act() {
  const std::uint64_t waiting = waiting_signals();
  std::uint64_t act = 0;
  for (int number = 1; number <= 64; ++number) {
    if ((waiting >> (number - 1) & 1U) == 0) continue;
    KernelAction action{};
    raw(SYS_rt_sigaction, number, nullptr, &action, sizeof action.mask);
    if (action.handler == SIG_DFL) act |= std::uint64_t{1} << (number - 1);
  }
  if (act == 0) return;
  raw(SYS_rt_sigprocmask, SIG_UNBLOCK, &act, nullptr, sizeof act);
  raw(SYS_rt_sigprocmask, SIG_BLOCK, &act, nullptr, sizeof act);
}

long interruption() {
  const std::uint64_t waiting = waiting_signals();
  long found = 0;
  for (int number = 1; number <= 64; ++number) {
    if ((waiting >> (number - 1) & 1U) == 0) continue;
    KernelAction action{};
    raw(SYS_rt_sigaction, number, nullptr, &action, sizeof action.mask);
    if (action.handler == SIG_IGN || (action.handler == SIG_DFL && is_ignored_by_default(number))) continue;
    if (action.handler != SIG_DFL && (action.flags & SA_RESTART) == 0) return minus(EINTR);
    found = kAgain;
  }
  return found;
}

unsigned with_umask(unsigned mode) {
  FrontState& state = *front().state;
  if (state.umask < 0) state.umask = static_cast<int>(read_umask() & 0777U);
  return mode | (static_cast<unsigned>(state.umask) << wire::NewAttributes::kUmaskShift);
}

}  // namespace spate::preload
