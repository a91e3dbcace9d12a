// SPDX-License-Identifier: Apache-2.0
// RecentEvents: which objects were recalled or changed while requests to the server are under way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "model/ids.h"

namespace spate::client {

/// A request remembers count() before it is sent. Events that are noted later are newer than its answer. The list is
/// bounded: when it is full, every object counts as changed. Not thread-safe; the caller serialises calls.
class RecentEvents {
 public:
  /// The order of changes that were answered locally. The server's answers to earlier questions know nothing of them.
  static constexpr std::uint64_t kLocal = ~std::uint64_t{0};
  struct Event {
    std::uint64_t number = 0;
    Handle object;
    std::uint64_t order = 0;  // number that the server gave to the own change; 0: a recall, or no number is known
  };

  std::uint64_t count() const { return count_; }
  /// An object was recalled, or was changed by the own change `order`. `kept`: some request under way needs to know.
  void note(Handle object, std::uint64_t order, bool kept) {
    ++count_;
    if (!kept) return;
    if (events_.size() >= kMostKept) {
      events_.clear();
      forgotten_ = count_;
    }
    events_.push_back({count_, object, order});
  }
  /// Every object may have changed.
  void note_all() { forgotten_ = ++count_; }
  /// No request is under way.
  void clear() { events_.clear(); }

  /// Whether events after event number `since` have been forgotten.
  bool too_long_ago(std::uint64_t since) const { return since < forgotten_; }
  /// Whether `matches(event)` holds for an event after event number `since`.
  template <typename Matches>
  bool any_since(std::uint64_t since, Matches matches) const {
    return std::any_of(events_.begin(), events_.end(),
                       [&](const Event& event) { return event.number > since && matches(event); });
  }
  template <typename Visit>
  void for_each_since(std::uint64_t since, Visit visit) const {
    for (const Event& event : events_) {
      if (event.number > since) visit(event);
    }
  }

 private:
  static constexpr std::size_t kMostKept = 4096;
  std::deque<Event> events_;
  std::uint64_t count_ = 0;
  std::uint64_t forgotten_ = 0;  // events up to this one have been forgotten
};

}  // namespace spate::client
