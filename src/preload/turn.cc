// SPDX-License-Identifier: Apache-2.0
#include "preload/turn.h"

#include <fcntl.h>
#include <linux/futex.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "preload/front_link.h"

namespace spate::preload {
namespace {

constexpr std::uint64_t kWaiters = std::uint64_t{1} << 31U;
constexpr std::uint64_t kPidMask = (1U << 22U) - 1;  // the kernel's largest process id
constexpr unsigned kSpaceShift = 22;
constexpr std::uint64_t kSpaceMask = (1U << 9U) - 1;
constexpr unsigned kFewWakes = 16;
constexpr long kPieceNs = 50'000'000;  // time between looks at signals, and at whether the holder of the turn lives

/// The state and the start time in /proc/PID/stat; empty if there is no such process.
struct ProcessStat {
  char state = '?';
  std::uint32_t start_time = 0;
};

std::optional<ProcessStat> process_stat(std::uint64_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const long file = raw(SYS_open, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (failed(file)) return std::nullopt;
  std::array<char, 1024> room{};
  const long size = raw(SYS_read, file, room.data(), room.size());
  raw(SYS_close, file);
  std::string_view text(room.data(), failed(size) ? 0 : static_cast<std::size_t>(size));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return std::nullopt;
  text.remove_prefix(name_end + 2);
  ProcessStat stat;
  stat.state = text.front();
  constexpr int kStartTime = 19;  // fields after the state
  for (int i = 0; i < kStartTime; ++i) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space + 1);
  }
  std::uint64_t start_time = 0;
  std::from_chars(text.data(), text.data() + text.size(), start_time);
  stat.start_time = static_cast<std::uint32_t>(start_time);
  return stat;
}

/// Some bits of the number in "pid:[4026531836]".
std::uint64_t own_space() {
  std::array<char, 64> link{};
  const long size = raw(SYS_readlink, "/proc/self/ns/pid", link.data(), link.size() - 1);
  std::uint64_t number = 0;
  for (long i = 0; !failed(size) && i < size; ++i) {
    const char c = link[static_cast<std::size_t>(i)];
    if (c >= '0' && c <= '9') number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number & kSpaceMask;
}

std::uint64_t word_of(std::uint64_t pid, std::uint64_t space, std::uint32_t start_time) {
  return (pid & kPidMask) | space << kSpaceShift | std::uint64_t{start_time} << 32U;
}

std::atomic<std::uint64_t> own{0};  // 0: not read yet

std::uint64_t own_word() {
  const std::uint64_t known = own.load(std::memory_order_relaxed);
  if (known != 0) return known;
  const auto pid = static_cast<std::uint64_t>(raw(SYS_getpid));
  const auto stat = process_stat(pid);
  const std::uint64_t word = word_of(pid, own_space(), stat ? stat->start_time : 0);
  own.store(word, std::memory_order_relaxed);
  return word;
}

bool broker_lives(std::uint64_t word) {
  const std::uint64_t pid = word & kPidMask;
  const std::uint64_t space = word >> kSpaceShift & kSpaceMask;
  if (pid == 0) return false;
  if (space != (own_word() >> kSpaceShift & kSpaceMask)) return true;
  const auto stat = process_stat(pid);
  if (!stat || word_of(pid, space, stat->start_time) != (word & ~kWaiters)) return false;
  return stat->state != 'Z' && stat->state != 'X';
}

/// False: the word has not changed for a while. The futex is the low half of the word, because x86-64 is little-endian.
bool wait_for_change(TurnWord& word, std::uint64_t seen) {
  const timespec piece{0, kPieceNs};
  return raw(SYS_futex, &word, FUTEX_WAIT, static_cast<std::uint32_t>(seen), &piece, nullptr, 0) != -ETIMEDOUT;
}

}  // namespace

Turn::Turn(TurnWord& word) : word_(word) {
  const std::uint64_t mine = own_word();
  std::uint64_t seen = 0;
  unsigned wakes = 0;
  if (word_.compare_exchange_strong(seen, mine)) {
    held_ = true;
    return;
  }
  while (!held_) {
    if (seen == 0) {
      held_ = word_.compare_exchange_strong(seen, mine | kWaiters);  // others may be waiting, too
      continue;
    }
    if ((seen & kWaiters) == 0 && !word_.compare_exchange_strong(seen, seen | kWaiters)) continue;
    seen |= kWaiters;
    const bool changed = wait_for_change(word_, seen);
    // A short wait continues in spite of signals, as one in the kernel does. Wakes without a change do not prolong it.
    if ((!changed || ++wakes % kFewWakes == 0) && (interrupted_ = interruption()) != 0) return;
    if (!changed && !broker_lives(seen))
      held_ = word_.compare_exchange_strong(seen, mine | kWaiters);
    else
      seen = word_.load();
  }
}

Turn::~Turn() {
  if (!held_) return;
  std::uint64_t seen = word_.load();
  // A hostile sharer may have given the turn to another process meanwhile.
  while ((seen & ~kWaiters) == own_word()) {
    if (!word_.compare_exchange_weak(seen, 0)) continue;
    if ((seen & kWaiters) != 0) raw(SYS_futex, &word_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    return;
  }
}

void end_turn_of_earlier_program(TurnWord& word) {
  std::uint64_t seen = word.load();
  if ((seen & ~kWaiters) == own_word()) word.compare_exchange_strong(seen, 0);
}

void forget_own_turns() { own = 0; }

}  // namespace spate::preload
