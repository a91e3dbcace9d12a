// SPDX-License-Identifier: Apache-2.0
// EventQueue: the future events of a simulated world, ordered by time, then by scheduling.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/unique_function.h"

namespace spate::bmi::sim {

/// Not thread-safe. Events of the same time run in the order of at(). Nothing here depends on addresses or hashes.
class EventQueue {
 public:
  using Key = std::pair<MonoTime, std::uint64_t>;
  using Action = UniqueFunction<void()>;

  Key at(MonoTime when, Action action) {
    const Key key{when, ++order_};
    events_.emplace(key, std::move(action));
    return key;
  }
  /// No effect once the event has run.
  void cancel(Key key) { events_.erase(key); }
  bool empty() const { return events_.empty(); }
  /// The time of the first event; never() if there is none.
  MonoTime next_time() const { return events_.empty() ? MonoTime::never() : events_.begin()->first.first; }
  /// Removes the first event. There must be one.
  Action take() {
    Action action = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    return action;
  }

 private:
  std::map<Key, Action> events_;
  std::uint64_t order_ = 0;
};

}  // namespace spate::bmi::sim
