// SPDX-License-Identifier: Apache-2.0
// Turn: one process at a time uses the position of an open file that several share.
#pragma once

#include <atomic>
#include <cstdint>

namespace spate::preload {

/// In memory that other processes can write. 0: free. Bits 0-21: the process that has it; 22-30: a part of the number
/// of its PID namespace; 31: somebody waits; 32-63: when the process began, in ticks since boot. No pointer, unlike a
/// robust mutex of the C library, whose list a hostile sharer could make the kernel or the C library write through.
using TurnWord = std::atomic<std::uint64_t>;

/// Holds a turn, over all processes and threads. A process that ended with it, however it ended, has lost it; one of
/// another PID namespace, which this one cannot look at, is taken to be alive.
class Turn {
 public:
  /// Waits for it, unless a signal that the program does not hold back comes, and somebody has it for long.
  explicit Turn(TurnWord& word);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// False: it was given up. The call then has the result interrupted(): -EINTR, or kAgain.
  bool held() const { return held_; }
  long interrupted() const { return interrupted_; }

 private:
  TurnWord& word_;
  bool held_ = false;
  long interrupted_ = 0;
};

/// This program has just begun to use the word: where this process has the turn, the program before exec had it.
void end_turn_of_earlier_program(TurnWord& word);

/// In a child of fork().
void forget_own_turns();

}  // namespace spate::preload
