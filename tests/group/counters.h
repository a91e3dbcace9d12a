// SPDX-License-Identifier: Apache-2.0
// Counters: a model of counters that clients increment and read. Checks that one history explains all answers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace spate::group {

/// Answers must be possible if operations take effect one after another, each once, between its call and its answer.
class Counters {
 public:
  /// Begins an operation. Returns the least value that its answer may have.
  std::uint64_t begin(std::uint32_t counter, bool increments) {
    Counter& it = counters_[counter];
    if (increments) ++it.begun;
    return it.answered;
  }
  void answered(std::uint32_t counter, bool increments, std::uint64_t least, std::uint64_t value) {
    Counter& it = counters_[counter];
    const std::string which = "counter " + std::to_string(counter) + ": ";
    if (increments && !it.given.insert(value).second) fail(which + "two increments were told " + std::to_string(value));
    if (value < least + (increments ? 1 : 0)) {
      fail(which + "told " + std::to_string(value) + " after somebody was told " + std::to_string(least));
    }
    if (value > it.begun) fail(which + "told more than there were increments");
    it.answered = std::max(it.answered, value);
  }
  /// Checks a counter's final value after all increments were answered.
  void ended(std::uint32_t counter, std::uint64_t value) {
    const Counter& it = counters_[counter];
    if (value == it.begun) return;
    fail("counter " + std::to_string(counter) + ": " + std::to_string(it.begun) + " increments have made it " +
         std::to_string(value));
  }
  void fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }
  const std::string& failure() const { return failure_; }

 private:
  struct Counter {
    std::uint64_t begun = 0;
    std::uint64_t answered = 0;
    std::set<std::uint64_t> given;
  };
  std::map<std::uint32_t, Counter> counters_;
  std::string failure_;
};

}  // namespace spate::group
