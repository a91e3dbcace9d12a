// SPDX-License-Identifier: Apache-2.0
// Input: the bytes of a client that have arrived and are not used yet.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace spate::nbd {

/// One piece of memory of a fixed size. Bytes are added behind those that wait, and taken from their front. A part that
/// view() has returned stays where it is until tidy() or make_room(), also when it was taken. Not thread-safe.
class Input {
 public:
  /// `bytes`: the most that may wait.
  explicit Input(std::size_t bytes) : memory_(bytes) {}
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// The bytes that wait, the oldest first.
  ByteView view() const { return memory_.view().subspan(begin_, end_ - begin_); }
  /// Takes the oldest `n` bytes, at most those that wait.
  void take(std::size_t n) { begin_ += n; }

  /// The room for further bytes. Call tidy() before.
  MutableByteView room() { return MutableByteView(memory_.data() + end_, memory_.size() - end_); }
  /// The first `n` bytes of room() have arrived.
  void add(std::size_t n) { end_ += n; }
  /// Makes room() as large as is possible without a copy; if it is empty, moves the bytes that wait to the beginning.
  void tidy();
  /// Makes sure that `size` bytes can wait at once, those that wait now included. `size`: at most that of the memory.
  void make_room(std::size_t size);

 private:
  void move_to_front();

  Buffer memory_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace spate::nbd
