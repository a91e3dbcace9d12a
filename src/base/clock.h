// SPDX-License-Identifier: Apache-2.0
// Clock: all code learns the time through this interface, so that a simulation can control it.
#pragma once

#include <chrono>
#include <cstdint>

namespace spate {

using Duration = std::chrono::nanoseconds;

/// A point on the monotonic clock of one process (or of the simulation).
struct MonoTime {
  Duration since_start{0};
  friend constexpr auto operator<=>(const MonoTime&, const MonoTime&) = default;
  friend constexpr MonoTime operator+(MonoTime t, Duration d) { return MonoTime{t.since_start + d}; }
  friend constexpr Duration operator-(MonoTime a, MonoTime b) { return a.since_start - b.since_start; }
  static constexpr MonoTime never() { return MonoTime{Duration::max()}; }
};

/// Wall-clock time as stored in inodes: nanoseconds since 1970, UTC.
struct WallTime {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(const WallTime&, const WallTime&) = default;
};

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime now() const = 0;
  virtual WallTime wall() const = 0;
};

/// CLOCK_MONOTONIC and CLOCK_REALTIME.
class SystemClock final : public Clock {
 public:
  MonoTime now() const override;
  WallTime wall() const override;
};

/// Moves only when set() is called. For tests and the simulation. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(WallTime start = WallTime{1'000'000'000'000'000'000}) : wall_start_(start) {}
  MonoTime now() const override { return now_; }
  WallTime wall() const override { return WallTime{wall_start_.ns + now_.since_start.count()}; }
  void advance(Duration by) { now_ = now_ + by; }
  /// `to` must not lie in the past.
  void set(MonoTime to);

 private:
  MonoTime now_;
  WallTime wall_start_;
};

}  // namespace spate
