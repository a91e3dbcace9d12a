// SPDX-License-Identifier: Apache-2.0
// Polling: whether a wait is to begin with asking again and again instead of sleeping at once.
#pragma once

#include <algorithm>

namespace spate::job {

/// Polls while that finds something. Each time it does not, twice as many waits pass before the next try: who waits for
/// what takes long (many replies at once, a disk) hardly loses a processor to it. Not thread-safe.
class Polling {
 public:
  /// Whether this wait is to begin with it. Once a wait; found() or in_vain() follows if so.
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
  unsigned unpolled_waits_ = 0;  // still to pass before the next one
};

}  // namespace spate::job
