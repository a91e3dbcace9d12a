// SPDX-License-Identifier: Apache-2.0
// The cache and this client's own changes: what they may touch is not answered meanwhile, and what they were granted of
// it is kept afterwards.
#include <algorithm>

#include "client/attributes/attribute_cache.h"

namespace spate::client {
namespace {

/// Events remembered while something is under way; with more of them it keeps nothing.
constexpr std::size_t kMostEventsKept = 4096;

bool holds(const std::vector<Handle>& all, Handle one) { return std::find(all.begin(), all.end(), one) != all.end(); }

bool holds(const std::vector<wire::TouchedName>& all, Handle directory, std::string_view name) {
  const auto is_it = [&](const wire::TouchedName& one) { return one.directory == directory && one.name == name; };
  return std::any_of(all.begin(), all.end(), is_it);
}

const wire::GrantedObject* granted_of(const wire::Granted& granted, Handle object) {
  const auto is_it = [object](const wire::GrantedObject& one) { return one.object.attributes.handle == object; };
  const auto found = std::find_if(granted.objects.begin(), granted.objects.end(), is_it);
  return found == granted.objects.end() ? nullptr : &*found;
}

bool names_any_of(const wire::Touched& touched, Handle directory) {
  const auto in_it = [directory](const wire::TouchedName& name) { return name.directory == directory; };
  return std::any_of(touched.names.begin(), touched.names.end(), in_it);
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
  for (Change& change : changes_) {
    if (std::any_of(change.trusted.begin(), change.trusted.end(), in_it)) may_touch_anything(change);
  }
}

void AttributeCache::name_lost(Handle directory, std::string_view name) {
  for (Change& change : changes_) {
    if (holds(change.trusted, directory, name)) may_touch_anything(change);
  }
}

void AttributeCache::may_touch_anything(Change& change) {
  if (change.all) return;
  change.all = true;
  drop_all_attribute_copies();
}

/// Before others can see the change. Names are not among it: where they are kept they are changed by the same call.
void AttributeCache::drop_copies_of(const Change& change) {
  if (change.all) return drop_all_attribute_copies();
  for (const Handle object : change.objects) drop_copy(object);
  for (const Handle directory : change.directories) drop_copy(directory);
}

/// Who keeps names has moved its copies with what they lead to, under the lease of the directory that they are in now:
/// that must last as long as they are used.
void AttributeCache::keep_moved_names(const wire::Touched& touched) {
  if (last_name_copy_ != names_epoch_ || touched.names.size() < 2) return;
  MonoTime until;
  MonoTime all_kept_until = MonoTime::never();
  for (const wire::TouchedName& name : touched.names) {
    const auto found = objects_.find(name.directory);
    if (found == objects_.end()) return drop_name_copies();
    const Object& directory = found->second;
    if (directory.names_copied == names_epoch_) until = std::max(until, directory.names_copied_until);
    all_kept_until = std::min(all_kept_until, end_of(directory));
  }
  if (until == MonoTime()) return;  // none was in them
  if (all_kept_until < until) return drop_name_copies();
  for (const wire::TouchedName& name : touched.names) note_name_copy(objects_.at(name.directory), until);
}

void AttributeCache::note(Handle object, std::uint64_t order) {
  ++events_count_;
  if (looking_ == 0 && changes_.empty()) return;
  if (events_.size() >= kMostEventsKept) {
    events_.clear();
    forgotten_ = events_count_;
  }
  events_.push_back({events_count_, object, order});
}

void AttributeCache::forget_events() {
  if (looking_ == 0 && changes_.empty()) events_.clear();
}

void AttributeCache::recalled(Handle object) {
  const std::lock_guard lock(mutex_);
  ++counters_.recalls;
  drop(object);
  note(object, 0);
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
  const bool none = directory == nullptr || !directory->names.contains(path);
  if (none && (directory == nullptr || !directory->complete)) {
    change.all = true;
    return;
  }
  change.trusted.push_back({start, std::string(path)});
  if (none) return;
  const Name& name = directory->names.find(path)->second;
  const bool follows = (place.where->flags & wire::NamePath::kFollowLast) != 0;
  if (follows && name.type == FileType::kSymlink) change.all = true;
  if (name.object) change.objects.push_back(name.object);
}

AttributeCache::ChangePtr AttributeCache::begin_change(const ChangePlan& plan) {
  const std::lock_guard lock(mutex_);
  Change change;
  change.asked = clock_.now();
  change.news = events_count_;
  change.all = !plan.known;
  change.objects = plan.objects;
  for (const ChangePlan::Place& place : plan.places) plan_place(change, place);
  drop_copies_of(change);
  return changes_.insert(changes_.end(), std::move(change));
}

void AttributeCache::end_change(ChangePtr ended, const wire::Touched* touched, const wire::Granted& granted) {
  const std::lock_guard lock(mutex_);
  const Change change = std::move(*ended);
  changes_.erase(ended);
  if (touched != nullptr && !touched->known) drop_all();
  if (touched != nullptr && touched->known) keep_changed(change, *touched, granted);
  forget_events();
}

/// It was recalled, or changed by a later change of this client's own, since this one has begun.
bool AttributeCache::newer_known(const Change& change, Handle object, std::uint64_t order) const {
  if (change.news < forgotten_) return true;
  return std::any_of(events_.begin(), events_.end(), [&](const Event& event) {
    return event.news > change.news && event.object == object && (event.order == 0 || event.order > order);
  });
}

void AttributeCache::keep_changed(const Change& change, const wire::Touched& touched, const wire::Granted& granted) {
  if (granted.granted) meet_table(granted.table, granted.lease_ms);
  const std::uint64_t order = granted.granted ? granted.order : 0;
  std::vector<Handle> kept;  // directories of which names are kept as well
  for (const Handle object : touched.objects) {
    const wire::GrantedObject* const found = granted.granted ? granted_of(granted, object) : nullptr;
    const bool current = found != nullptr && !newer_known(change, object, order);
    note(object, order);
    drop_copy(object);
    if (!current) {
      forget_changed(object, order, names_any_of(touched, object));
      continue;
    }
    keep_granted(*found, order, change.asked + usable());
    if ((found->flags & wire::GrantedObject::kSearchable) != 0) kept.push_back(object);
  }
  for (const wire::TouchedName& name : touched.names) {
    if (!holds(kept, name.directory)) drop_name(name);
  }
  for (const wire::LeaseStep& step : granted.names) {
    if (holds(kept, step.directory)) keep_granted_name(step);
  }
  keep_moved_names(touched);
  make_room();
}

/// Of its attributes nothing is known any more, unless by a later change. Who may look names up has not changed where
/// only entries did.
void AttributeCache::forget_changed(Handle object, std::uint64_t order, bool entries_only) {
  const auto found = objects_.find(object);
  if (found == objects_.end() || (order != 0 && found->second.order > order)) return;
  if (!entries_only) return drop(object);
  found->second.reply.reset();
}

void AttributeCache::keep_granted(const wire::GrantedObject& granted, std::uint64_t order, MonoTime until) {
  const Attributes& attributes = granted.object.attributes;
  Object& object = renewed(attributes.handle, until);
  object.reply = granted.object;
  object.order = order;
  if (attributes.type != FileType::kDirectory) return;
  const bool searchable = (granted.flags & wire::GrantedObject::kSearchable) != 0;
  const bool empty = (granted.flags & wire::GrantedObject::kNeverUsed) != 0;
  if (!searchable || empty) forget_names(attributes.handle, object);
  if (searchable && empty) object.complete = true;
}

void AttributeCache::keep_granted_name(const wire::LeaseStep& step) {
  Object& directory = objects_.at(step.directory);
  if (step.object || !directory.complete) return put_name(directory, step);
  name_lost(step.directory, step.name);
  names_ -= directory.names.erase(step.name);
}

}  // namespace spate::client
