// SPDX-License-Identifier: Apache-2.0
// Ring: a queue that allocates only when it grows, and names its elements by their position since the beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace spate::bmi {

/// A queue of Ts in an array, which doubles when it is full and never shrinks. A position names one element for ever.
/// O(1), except for a push() that has to grow: O(size); it also ends all references to elements. T must have a default
/// value and be movable. pop() and clear() do not destroy elements: each one lives until its place is used again, so a
/// caller that needs its memory or descriptor back releases that before. Not thread-safe.
template <typename T>
class Ring {
 public:
  bool empty() const { return first_ == end_; }
  std::size_t size() const { return static_cast<std::size_t>(end_ - first_); }

  /// Positions of the first element and after the last one. They only grow.
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return end_; }
  /// The element at `position`, first() <= position < end().
  T& at(std::uint64_t position) { return slots_[position & (slots_.size() - 1)]; }
  T& front() { return at(first_); }

  /// Returns the new element's position.
  std::uint64_t push(T value) {
    if (size() == slots_.size()) grow();
    slots_[end_ & (slots_.size() - 1)] = std::move(value);
    return end_++;
  }
  void pop() {
    SPATE_CHECK(!empty());
    ++first_;
  }
  void clear() { first_ = end_; }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 8 : slots_.size() * 2);
    for (std::uint64_t p = first_; p != end_; ++p) larger[p & (larger.size() - 1)] = std::move(at(p));
    slots_.swap(larger);
  }

  std::vector<T> slots_;  // a power of two of them
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace spate::bmi
