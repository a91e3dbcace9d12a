// SPDX-License-Identifier: Apache-2.0
// WakeCheck: notices that a process has stood still for longer than a lease.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace spate::group {

/// A member that serves alone needs no acknowledgment of others for its lease. If it stands still, nobody else knows,
/// but an operator may take it for lost, and let another member lead. So it reads its record before it goes on.
///
/// look() is called far more often than a lease lasts. One thread.
class WakeCheck {
 public:
  WakeCheck(Duration lease, MonoTime now) : lease_(lease), looked_(now) {}

  /// True: the process has stood still since the last look.
  bool look(MonoTime now) {
    const bool slept = looked_ + lease_ <= now;
    sleeps_ += slept ? 1 : 0;
    looked_ = now;
    return slept;
  }
  std::uint64_t sleeps() const { return sleeps_; }
  /// The record was read by a question that was sent when sleeps() was this number. True: it was asleep until now.
  bool has_read(std::uint64_t sleeps) {
    const bool wakes = read_after_ != sleeps && sleeps == sleeps_;
    read_after_ = sleeps;
    return wakes;
  }
  /// Whether it has stood still and not read the record since, as far as look() has noticed.
  bool must_read() const { return read_after_ != sleeps_; }
  /// Until then it has not stood still, or has read the record since.
  MonoTime awake_until() const { return must_read() ? MonoTime() : looked_ + lease_; }

 private:
  const Duration lease_;
  MonoTime looked_;
  std::uint64_t sleeps_ = 0;
  std::uint64_t read_after_ = 0;
};

}  // namespace spate::group
