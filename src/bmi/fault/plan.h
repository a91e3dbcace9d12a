// SPDX-License-Identifier: Apache-2.0
// Plan: decides which faults happen, by counting what passes. See README.md for the table of points and actions.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"

namespace spate::bmi::fault {

/// The places that a plan counts and where a fault can happen.
enum class Point : std::uint8_t {
  kPostSend,
  kPostReceive,
  kPostUnexpected,
  kCompletion,
  kUnexpected,
  kListen,
  kLookup
};
inline constexpr std::size_t kPoints = 7;

enum class Action : std::uint8_t { kFail, kDropConnection, kDelay, kTruncate, kCorrupt };

struct Fault {
  Point point = Point::kPostSend;
  std::uint64_t nth = 1;    // the first event at the point that the fault applies to, from 1
  std::uint64_t count = 1;  // how many events in a row it applies to
  Action action = Action::kFail;
  Errc status = Errc::kConnectionLost;  // kFail
  std::uint32_t turns = 100;            // kDelay: calls of progress()
  std::uint64_t keep = 0;               // kTruncate: bytes
};

/// Thread-safe. An empty plan only counts.
class Plan {
 public:
  void add(const Fault& fault);
  /// Removes all faults; the counts go on.
  void clear();

  /// Counts what passes at `point` and yields its fault, if any.
  std::optional<Fault> pass(Point point);

  std::uint64_t passed(Point point) const;
  /// How many faults were applied.
  std::uint64_t fired() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Fault> faults_;                    // guarded by mutex_
  std::array<std::uint64_t, kPoints> passed_{};  // guarded by mutex_
  std::uint64_t fired_ = 0;                      // guarded by mutex_
};

}  // namespace spate::bmi::fault
