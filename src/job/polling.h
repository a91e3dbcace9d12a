// SPDX-License-Identifier: Apache-2.0
// Polling: decides whether a wait polls first or sleeps at once.
#pragma once

namespace spate::job {

/// Chooses polling as long as it finds something. After each poll in vain, twice as many waits sleep at once before the
/// next try. So a caller whose waits take long (many replies, a disk) wastes almost no processor time. On a processor
/// that other threads keep busy, it hardly ever polls. Not thread-safe.
class Polling {
 public:
  /// Whether this wait polls first. Call it once a wait. If it returns true, call found(), in_vain() or crowded()
  /// afterwards.
  bool is_due() {
    if (unpolled_waits_ == 0) return true;
    --unpolled_waits_;
    return false;
  }
  void found();
  void in_vain();
  /// Another thread has kept the processor for some milliseconds. A sleeping thread would have got it back at once.
  void crowded();

 private:
  unsigned vain_polls_ = 0;      // in a row
  unsigned crowd_ = 0;           // grows with each crowded poll, and shrinks slowly
  unsigned found_ = 0;           // polls that found something since crowd_ has changed
  unsigned unpolled_waits_ = 0;  // that still sleep at once before the next poll
};

}  // namespace spate::job
