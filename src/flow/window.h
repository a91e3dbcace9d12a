// SPDX-License-Identifier: Apache-2.0
// Window: the messages of one stream that are in flight, oldest first.
#pragma once

#include <cstddef>
#include <memory>

#include "base/check.h"

namespace spate::flow {

/// A ring of at most `depth` elements, which never move because posted operations cannot be moved. Not thread-safe.
template <typename T>
class Window {
 public:
  explicit Window(std::size_t depth) : depth_(depth), ring_(std::make_unique<T[]>(depth)) {}

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == depth_; }
  std::size_t size() const { return count_; }
  T& front() { return ring_[first_]; }
  /// The element behind `older` older ones; there are more than that.
  T& at(std::size_t older) {
    SPATE_CHECK(older < count_);
    return ring_[(first_ + older) % depth_];
  }
  /// Adds the next free place at the window's end and returns it.
  T& push() {
    SPATE_CHECK(!full());
    return ring_[(first_ + count_++) % depth_];
  }
  /// Removes the oldest element. Its place is reused with its contents.
  void pop() {
    SPATE_CHECK(!empty());
    first_ = (first_ + 1) % depth_;
    --count_;
  }
  template <typename F>
  void for_each(F f) {
    for (std::size_t i = 0; i < count_; ++i) f(ring_[(first_ + i) % depth_]);
  }

 private:
  const std::size_t depth_;
  std::unique_ptr<T[]> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace spate::flow
