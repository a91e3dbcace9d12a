// SPDX-License-Identifier: Apache-2.0
// Polling: decides whether a wait polls first or sleeps at once.
#pragma once

#include <algorithm>

namespace spate::job {

/// Chooses polling as long as it finds something. After each poll in vain, twice as many waits sleep at once before the
/// next try. So a caller whose waits take long (many replies, a disk) wastes almost no processor time. Not thread-safe.
class Polling {
 public:
  /// Whether this wait polls first. Call it once a wait. If it returns true, call found() or in_vain() afterwards.
  bool is_due() {
    if (unpolled_waits_ == 0) return true;
    --unpolled_waits_;
    return false;
  }
  void found() { vain_polls_ = 0; }
  void in_vain() {
    vain_polls_ = std::min(vain_polls_ + 1, kMostDoublings);
    unpolled_waits_ = 1U << vain_polls_;
  }

 private:
  static constexpr unsigned kMostDoublings = 6;

  unsigned vain_polls_ = 0;      // in a row
  unsigned unpolled_waits_ = 0;  // that still sleep at once before the next poll
};

}  // namespace spate::job
