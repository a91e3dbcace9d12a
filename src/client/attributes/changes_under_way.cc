// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/changes_under_way.h"

#include <utility>

namespace spate::client {
namespace {

bool among(const std::vector<Handle>& all, Handle one) { return std::find(all.begin(), all.end(), one) != all.end(); }

bool among(const std::vector<wire::TouchedName>& all, Handle directory, std::string_view name) {
  const auto is_it = [&](const wire::TouchedName& one) { return one.directory == directory && one.name == name; };
  return std::any_of(all.begin(), all.end(), is_it);
}

}  // namespace

/// Copies of names are not taken back here, because their holder changes them in the same call.
ChangesUnderWay::Ptr ChangesUnderWay::begin(PendingChange change) {
  if (change.all) {
    copies_.drop_all_attributes();
  } else {
    for (const Handle object : change.objects) copies_.drop_attributes(object);
    for (const Handle directory : change.directories) copies_.drop_attributes(directory);
  }
  return changes_.insert(changes_.end(), std::move(change));
}

PendingChange ChangesUnderWay::end(Ptr change) {
  PendingChange ended = std::move(*change);
  changes_.erase(change);
  return ended;
}

bool ChangesUnderWay::touch(Handle object) const {
  return std::any_of(changes_.begin(), changes_.end(),
                     [&](const PendingChange& change) { return among(change.objects, object); });
}

bool ChangesUnderWay::touch(Handle directory, std::string_view name) const {
  return std::any_of(changes_.begin(), changes_.end(),
                     [&](const PendingChange& change) { return among(change.names, directory, name); });
}

bool ChangesUnderWay::touch_entries_of(Handle directory) const {
  return std::any_of(changes_.begin(), changes_.end(),
                     [&](const PendingChange& change) { return among(change.directories, directory); });
}

void ChangesUnderWay::names_lost(Handle directory) {
  const auto in_it = [directory](const wire::TouchedName& name) { return name.directory == directory; };
  for (PendingChange& change : changes_) {
    if (std::any_of(change.trusted.begin(), change.trusted.end(), in_it)) may_touch_anything(change);
  }
}

void ChangesUnderWay::name_lost(Handle directory, std::string_view name) {
  for (PendingChange& change : changes_) {
    if (among(change.trusted, directory, name)) may_touch_anything(change);
  }
}

void ChangesUnderWay::all_names_lost() {
  for (PendingChange& change : changes_) change.all = change.all || !change.trusted.empty();
}

void ChangesUnderWay::may_touch_anything(PendingChange& change) {
  if (change.all) return;
  change.all = true;
  copies_.drop_all_attributes();
}

}  // namespace spate::client
