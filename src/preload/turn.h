// SPDX-License-Identifier: Apache-2.0
// Turn: lets one process at a time use the position of an open file that several share.
#pragma once

#include <atomic>
#include <cstdint>

namespace spate::preload {

/// A word in memory that other processes can write. 0: free. Bits 0-21: the process that has the turn; 22-30: a part of
/// the number of its PID namespace; 31: a process waits; 32-63: when the process began, in ticks since boot. Unlike a
/// robust mutex of the C library the word has no pointer: through the list of such a mutex a hostile sharer could make
/// the kernel or the C library write anywhere.
using TurnWord = std::atomic<std::uint64_t>;

/// Holds a turn, exclusive among all processes and threads. A process loses its turn when it ends, however it ends. A
/// process of another PID namespace cannot be checked, so it counts as alive.
class Turn {
 public:
  /// Waits for the turn. After a short wait, a signal that the program does not block ends the wait.
  explicit Turn(TurnWord& word);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// False: the wait ended without the turn. The result of the call is then interrupted(): -EINTR, or kAgain.
  bool held() const { return held_; }
  long interrupted() const { return interrupted_; }

 private:
  TurnWord& word_;
  bool held_ = false;
  long interrupted_ = 0;
};

/// Call it when this program begins to use the word. If this process has the turn, the program before exec has taken
/// it.
void end_turn_of_earlier_program(TurnWord& word);

/// Call it in a child of fork().
void forget_own_turns();

}  // namespace spate::preload
