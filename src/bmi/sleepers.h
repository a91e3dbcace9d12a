// SPDX-License-Identifier: Apache-2.0
// Sleepers: the contexts whose testers have announced a sleep.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "bmi/context.h"

namespace spate::bmi {

/// The core's lock guards it, except any(). A context is in it from its successful Context::prepare_to_wait() to its
/// Context::awake().
class Sleepers {
 public:
  /// Needs no lock.
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  /// No effect if the context is in it.
  void add(Context& context) {
    if (std::ranges::find(contexts_, &context) == contexts_.end()) contexts_.push_back(&context);
    count_.store(contexts_.size(), std::memory_order_relaxed);
  }
  /// No effect if the context is not in it.
  void remove(Context& context) {
    std::erase(contexts_, &context);
    count_.store(contexts_.size(), std::memory_order_relaxed);
  }
  /// Wakes one of the testers, if there is any.
  void wake_one() {
    if (!contexts_.empty()) contexts_.back()->signal();
  }

 private:
  std::vector<Context*> contexts_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace spate::bmi
