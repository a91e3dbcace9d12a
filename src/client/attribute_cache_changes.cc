// SPDX-License-Identifier: Apache-2.0
// The cache and this client's own changes: what they may touch is not answered meanwhile.
#include <algorithm>

#include "client/attribute_cache.h"

namespace spate::client {
namespace {

/// Events remembered while something is under way; with more of them it keeps nothing.
constexpr std::size_t kMostEventsKept = 4096;

bool holds(const std::vector<Handle>& all, Handle one) { return std::find(all.begin(), all.end(), one) != all.end(); }

bool holds(const std::vector<wire::TouchedName>& all, Handle directory, std::string_view name) {
  const auto is_it = [&](const wire::TouchedName& one) { return one.directory == directory && one.name == name; };
  return std::any_of(all.begin(), all.end(), is_it);
}

}  // namespace

bool AttributeCache::blocked(Handle object) const {
  return std::any_of(changes_.begin(), changes_.end(),
                     [&](const Change& change) { return holds(change.objects, object); });
}

bool AttributeCache::blocked(Handle directory, std::string_view name) const {
  const auto changes_it = [&](const Change& change) { return holds(change.names, directory, name); };
  return std::any_of(changes_.begin(), changes_.end(), changes_it);
}

/// Nobody knows what is being changed, or not any more: the names that told it are not known any more.
bool AttributeCache::all_blocked(MonoTime now) const {
  const auto unknown = [&](const wire::TouchedName& name) {
    const auto found = objects_.find(name.directory);
    return found == objects_.end() || std::max(found->second.until, until_) <= now;
  };
  return std::any_of(changes_.begin(), changes_.end(), [&](const Change& change) {
    return change.all || std::any_of(change.trusted.begin(), change.trusted.end(), unknown);
  });
}

/// They may lead elsewhere from now on: so may the changes that go by them.
void AttributeCache::names_lost(Handle directory) {
  const auto in_it = [directory](const wire::TouchedName& name) { return name.directory == directory; };
  for (Change& change : changes_)
    change.all = change.all || std::any_of(change.trusted.begin(), change.trusted.end(), in_it);
}

void AttributeCache::name_lost(Handle directory, std::string_view name) {
  for (Change& change : changes_) change.all = change.all || holds(change.trusted, directory, name);
}

void AttributeCache::note(Handle object) {
  ++news_;
  if (looking_ == 0 && changes_.empty()) return;
  if (events_.size() >= kMostEventsKept) {
    events_.clear();
    forgotten_ = news_;
  }
  events_.push_back({news_, object});
}

void AttributeCache::forget_events() {
  if (looking_ == 0 && changes_.empty()) events_.clear();
}

void AttributeCache::recalled(Handle object) {
  const std::lock_guard lock(mutex_);
  ++counters_.recalls;
  drop(object);
  note(object);
}

void AttributeCache::plan_place(Change& change, const ChangePlan::Place& place) {
  const Handle start = place.where->start;
  const std::string_view path = place.where->path;
  if (path.empty() && !place.entry) return change.objects.push_back(start);
  if (path.empty() || path == "." || path == ".." || path.find('/') != std::string_view::npos) {
    change.all = true;
    return;
  }
  if (place.entry) {
    change.directories.push_back(start);
    change.names.push_back({start, std::string(path)});
    if (place.fresh) return;
  }
  const Object* const directory = valid(start, clock_.now());
  if (directory == nullptr || !directory->names.contains(path)) {
    change.all = true;
    return;
  }
  change.trusted.push_back({start, std::string(path)});
  const Name& name = directory->names.find(path)->second;
  const bool follows = (place.where->flags & wire::NamePath::kFollowLast) != 0;
  if (follows && name.type == FileType::kSymlink) change.all = true;
  if (name.object) change.objects.push_back(name.object);
}

AttributeCache::ChangePtr AttributeCache::begin_change(const ChangePlan& plan) {
  const std::lock_guard lock(mutex_);
  Change change;
  change.all = !plan.known;
  change.objects = plan.objects;
  for (const ChangePlan::Place& place : plan.places) plan_place(change, place);
  return changes_.insert(changes_.end(), std::move(change));
}

void AttributeCache::end_change(ChangePtr ended, const wire::Touched* touched) {
  const std::lock_guard lock(mutex_);
  changes_.erase(ended);
  if (touched != nullptr && !touched->known) drop_all();
  if (touched != nullptr && touched->known) drop_changed(*touched);
  forget_events();
}

void AttributeCache::drop_changed(const wire::Touched& touched) {
  for (const Handle object : touched.objects) {
    note(object);
    const auto in_it = [object](const wire::TouchedName& name) { return name.directory == object; };
    const auto found = objects_.find(object);
    // Entries were changed: who may look names up has not changed with them.
    if (found != objects_.end() && std::any_of(touched.names.begin(), touched.names.end(), in_it)) {
      found->second.reply.reset();
    } else {
      drop(object);
    }
  }
  for (const wire::TouchedName& name : touched.names) drop_name(name);
}

}  // namespace spate::client
