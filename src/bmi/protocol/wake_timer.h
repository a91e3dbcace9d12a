// SPDX-License-Identifier: Apache-2.0
// WakeTimer and Deadlines: what a module has to do at certain times, and a descriptor that wakes a sleeping thread for
// it.
#pragma once

#include <set>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace spate::bmi::protocol {

/// A timerfd. Life cycle: construct -> open() -> other calls -> destroyed. Not thread-safe: the module's lock guards
/// it.
class WakeTimer {
 public:
  explicit WakeTimer(const Clock& clock) : clock_(clock) {}

  /// False, with errno: out of descriptors.
  bool open();
  int descriptor() const { return timer_.get(); }
  /// Makes the descriptor readable at `when`, or earlier if it is armed for an earlier time. A wake that comes too
  /// early costs one empty turn, after which the module arms the timer again.
  void arm(MonoTime when);
  /// The time for which it is armed; never() if it is not.
  MonoTime armed_for() const { return armed_for_; }
  /// Call it when the descriptor was readable or its time has come. Arm the timer again afterwards.
  void drain();

 private:
  const Clock& clock_;
  UniqueFd timer_;
  MonoTime armed_for_ = MonoTime::never();
};

/// The items that have a deadline, ordered by it. `Item` has `MonoTime deadline`, which is never() unless the item is
/// in here. Clear the deadline before the item is destroyed. Not thread-safe: the module's lock guards it.
template <typename Item>
class Deadlines {
 public:
  explicit Deadlines(WakeTimer& timer) : timer_(timer) {}

  bool empty() const { return items_.empty(); }
  /// The earliest one, or never().
  MonoTime first() const { return items_.empty() ? MonoTime::never() : items_.begin()->first; }
  void set(Item& item, MonoTime when) {
    clear(item);
    item.deadline = when;
    items_.emplace(when, &item);
    timer_.arm(first());
  }
  void clear(Item& item) {
    if (item.deadline == MonoTime::never()) return;
    items_.erase({item.deadline, &item});
    item.deadline = MonoTime::never();
  }
  /// Removes and returns the item with the earliest deadline if that is not after `now`, else null.
  Item* take_due(MonoTime now) {
    if (items_.empty() || items_.begin()->first > now) return nullptr;
    Item* const item = items_.begin()->second;
    clear(*item);
    return item;
  }

 private:
  WakeTimer& timer_;
  std::set<std::pair<MonoTime, Item*>> items_;
};

}  // namespace spate::bmi::protocol
