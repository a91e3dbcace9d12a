// SPDX-License-Identifier: Apache-2.0
// ChangesUnderWay: the objects and names that this client's own changes may touch before their answers have come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "client/attributes/change_plan.h"
#include "client/attributes/exported_copies.h"
#include "wire/lease_messages.h"

namespace spate::client {

/// A change by this client that was not answered yet. Other clients may see it already.
struct PendingChange {
  MonoTime asked;
  std::uint64_t events_before = 0;  // RecentEvents::count() when the change began
  bool all = false;                 // it may touch anything
  ChangePlan::Data data = ChangePlan::Data::kMayChange;
  bool removes_directory = false;
  std::vector<Handle> objects;             // their attributes may change and, in directories, their names
  std::vector<Handle> directories;         // their entries change, and their attributes with them
  std::vector<wire::TouchedName> names;    // names that change
  std::vector<wire::TouchedName> trusted;  // names by which the client knows which other objects the change touches
};

/// Takes back copies of everything that a change may touch before the change is sent. Not thread-safe; the caller
/// serialises calls.
class ChangesUnderWay {
 public:
  using Ptr = std::list<PendingChange>::iterator;
  /// `copies` outlives this object.
  explicit ChangesUnderWay(ExportedCopies& copies) : copies_(copies) {}

  bool empty() const { return changes_.empty(); }
  Ptr begin(PendingChange change);
  PendingChange end(Ptr change);

  bool touch(Handle object) const;
  bool touch(Handle directory, std::string_view name) const;
  bool touch_entries_of(Handle directory) const;
  /// Whether a change under way may touch any object, because this client does not know what it touches.
  /// `known(directory)`: whether the client still knows names in that directory.
  template <typename Known>
  bool touch_anything(Known known) const {
    const auto lost = [&](const wire::TouchedName& name) { return !known(name.directory); };
    return std::any_of(changes_.begin(), changes_.end(), [&](const PendingChange& change) {
      return change.all || std::any_of(change.trusted.begin(), change.trusted.end(), lost);
    });
  }

  /// Names in the directory may lead to other objects from now on. So changes that use them may touch anything.
  void names_lost(Handle directory);
  void name_lost(Handle directory, std::string_view name);
  void all_names_lost();

 private:
  void may_touch_anything(PendingChange& change);

  ExportedCopies& copies_;
  std::list<PendingChange> changes_;
};

}  // namespace spate::client
