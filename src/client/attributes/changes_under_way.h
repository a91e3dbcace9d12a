// SPDX-License-Identifier: Apache-2.0
// ChangesUnderWay: what this client's own changes may touch before their answers are here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "client/attributes/change_plan.h"
#include "client/attributes/given_copies.h"
#include "wire/lease_messages.h"

namespace spate::client {

/// An own change under way. Others may see it already.
struct PendingChange {
  MonoTime asked;
  std::uint64_t events_before = 0;  // RecentEvents::count() when it began
  bool all = false;                 // it may touch anything
  ChangePlan::Data data = ChangePlan::Data::kMayChange;
  std::vector<Handle> objects;             // of which attributes, and with directories names, may change
  std::vector<Handle> directories;         // of which entries change, and attributes with them
  std::vector<wire::TouchedName> names;    // that change
  std::vector<wire::TouchedName> trusted;  // that say what else it touches
};

/// Copies of what a change may touch are taken back before it is sent. Its user serialises calls.
class ChangesUnderWay {
 public:
  using Ptr = std::list<PendingChange>::iterator;
  /// Outlives it.
  explicit ChangesUnderWay(GivenCopies& copies) : copies_(copies) {}

  bool empty() const { return changes_.empty(); }
  Ptr begin(PendingChange change);
  PendingChange end(Ptr change);

  bool touch(Handle object) const;
  bool touch(Handle directory, std::string_view name) const;
  bool touch_entries_of(Handle directory) const;
  /// Nobody knows what is being changed, or not any more. `known(directory)`: whether names in it are still known.
  template <typename Known>
  bool touch_anything(Known known) const {
    const auto lost = [&](const wire::TouchedName& name) { return !known(name.directory); };
    return std::any_of(changes_.begin(), changes_.end(), [&](const PendingChange& change) {
      return change.all || std::any_of(change.trusted.begin(), change.trusted.end(), lost);
    });
  }

  /// Names may lead elsewhere from now on: so may the changes that go by them.
  void names_lost(Handle directory);
  void name_lost(Handle directory, std::string_view name);
  void all_names_lost();

 private:
  void may_touch_anything(PendingChange& change);

  GivenCopies& copies_;
  std::list<PendingChange> changes_;
};

}  // namespace spate::client
