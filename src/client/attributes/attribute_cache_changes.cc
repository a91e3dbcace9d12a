// SPDX-License-Identifier: Apache-2.0
// The cache and this client's own changes. While a change is under way, the cache gives no answer that the change may
// alter. Afterwards it keeps what the server granted with the answer.
#include <algorithm>

#include "client/attributes/attribute_cache.h"

namespace spate::client {
namespace {

bool holds(const std::vector<Handle>& all, Handle one) { return std::find(all.begin(), all.end(), one) != all.end(); }

const wire::GrantedObject* granted_of(const wire::Granted& granted, Handle object) {
  const auto is_it = [object](const wire::GrantedObject& one) { return one.object.attributes.handle == object; };
  const auto found = std::find_if(granted.objects.begin(), granted.objects.end(), is_it);
  return found == granted.objects.end() ? nullptr : &*found;
}

bool names_any_of(const wire::Touched& touched, Handle directory) {
  const auto in_it = [directory](const wire::TouchedName& name) { return name.directory == directory; };
  return std::any_of(touched.names.begin(), touched.names.end(), in_it);
}

void keep_granted_directory(CachedObjects& objects, const wire::GrantedObject& granted, CachedObject& directory) {
  const bool searchable = (granted.flags & wire::GrantedObject::kSearchable) != 0;
  const bool empty = (granted.flags & wire::GrantedObject::kNeverUsed) != 0;
  if (!searchable || empty) objects.forget_names(granted.object.attributes.handle, directory);
  if (searchable && empty) directory.complete = true;
  directory.delegated = (granted.flags & wire::GrantedObject::kDelegated) != 0;
}

void keep_granted_name(CachedObjects& objects, const wire::LeaseStep& step) {
  CachedObject& directory = *objects.find(step.directory);
  if (step.object || !directory.complete) return objects.put_name(directory, step);
  objects.forget_name(directory, {step.directory, step.name});
}

/// The reply to a change that went in a batch names the objects that all changes of the batch have touched. Only those
/// count that this change may have touched. If this change has made a file, nothing is written to the file yet.
void note_writing(const PendingChange& change, const OpenedFile& opened, Handle handle, CachedObject& file) {
  switch (change.data) {
    case ChangePlan::Data::kStays: return;
    case ChangePlan::Data::kOpened:
      if (handle != opened.handle) return;
      file.writing.reset();
      if (opened.made) file.writing = SoleWriterState{0, wire::DataSummary()};
      return;
    case ChangePlan::Data::kMayChange:
      if (change.all || holds(change.objects, handle)) file.writing.reset();
      return;
  }
}

/// A caller that keeps names has moved its copies along with the objects. The copies now depend on the lease of the new
/// directory, which must last as long as they are used.
void keep_moved_names(CachedObjects& objects, ExportedCopies& copies, const wire::Touched& touched) {
  if (!copies.any_names() || touched.names.size() < 2) return;
  MonoTime until;
  MonoTime all_kept_until = MonoTime::never();
  for (const wire::TouchedName& name : touched.names) {
    const CachedObject* const directory = objects.find(name.directory);
    if (directory == nullptr) return copies.drop_names();
    const NameCopies& given = directory->name_copies;
    if (copies.has_names(given)) until = std::max(until, given.until);
    all_kept_until = std::min(all_kept_until, objects.end_of(*directory));
  }
  if (until == MonoTime()) return;  // there were no copies of their names
  if (all_kept_until < until) return copies.drop_names();
  for (const wire::TouchedName& name : touched.names)
    copies.export_name(objects.find(name.directory)->name_copies, until);
}

/// Adds to `change` what a change of this name may touch, as far as the cache knows it.
void plan_place(CachedObjects& objects, MonoTime now, const ChangePlan::ChangedName& place, PendingChange& change) {
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
  const CachedObject* const directory = objects.use(start, now);
  const bool none = directory == nullptr || !directory->names.contains(path);
  if (none && (directory == nullptr || !directory->complete)) {
    change.all = true;
    return;
  }
  change.trusted.push_back({start, std::string(path)});
  if (none) return;
  const CachedName& name = directory->names.find(path)->second;
  const bool follows = (place.where->flags & wire::NamePath::kFollowLast) != 0;
  if (follows && name.type == FileType::kSymlink) change.all = true;
  if (name.object) change.objects.push_back(name.object);
}

/// Whether the object was recalled, or changed by a later own change, since `change` began.
bool newer_known(const RecentEvents& events, const PendingChange& change, Handle object, std::uint64_t order) {
  if (events.too_long_ago(change.events_before)) return true;
  return events.any_since(change.events_before, [&](const RecentEvents::Event& event) {
    return event.object == object && (event.order == 0 || event.order > order);
  });
}

/// Forgets the object's attributes, unless a later change has renewed them. If only entries changed, the rights to look
/// up names are as before.
void forget_changed(CachedObjects& objects, Handle object, std::uint64_t order, bool entries_only) {
  CachedObject* const found = objects.find(object);
  if (found == nullptr || (order != 0 && found->order > order)) return;
  if (!entries_only) return objects.drop(object);
  found->reply.reset();
}

}  // namespace

AttributeCache::ChangePtr AttributeCache::begin_change(const ChangePlan& plan) {
  const std::lock_guard lock(mutex_);
  PendingChange change;
  change.asked = clock_.now();
  change.events_before = events_.count();
  change.all = !plan.known;
  change.data = plan.data;
  change.removes_directory = plan.removes_directory;
  change.objects = plan.objects;
  for (const ChangePlan::ChangedName& place : plan.places) plan_place(objects_, change.asked, place, change);
  return changes_.begin(std::move(change));
}

void AttributeCache::end_change(ChangePtr ended, const wire::Touched* touched, const wire::Granted& granted,
                                OpenedFile opened) {
  const std::lock_guard lock(mutex_);
  const PendingChange change = changes_.end(ended);
  if (touched != nullptr && !touched->known) drop_all();
  if (touched != nullptr && touched->known) keep_changed(change, *touched, granted, opened);
  forget_events();
}

void AttributeCache::keep_changed(const PendingChange& change, const wire::Touched& touched,
                                  const wire::Granted& granted, OpenedFile opened) {
  if (granted.granted) meet_table(granted.table, granted.lease_ms);
  const std::uint64_t order = granted.granted ? granted.order : 0;
  std::vector<Handle> kept;  // directories of which names are kept, too
  for (const Handle object : touched.objects) {
    const wire::GrantedObject* const found = granted.granted ? granted_of(granted, object) : nullptr;
    const bool current = found != nullptr && !newer_known(events_, change, object, order);
    note(object, order);
    copies_.drop_attributes(object);
    if (!current) {
      if (change.removes_directory && holds(change.objects, object)) objects_.removed(object);
      forget_changed(objects_, object, order, names_any_of(touched, object));
      continue;
    }
    CachedObject& renewed = objects_.renewed(object, change.asked + usable());
    renewed.reply = found->object;
    renewed.order = order;
    renewed.plain = false;
    switch (found->object.attributes.type) {
      case FileType::kRegular: note_writing(change, opened, object, renewed); break;
      case FileType::kDirectory: keep_granted_directory(objects_, *found, renewed); break;
      default: break;
    }
    if ((found->flags & wire::GrantedObject::kSearchable) != 0) kept.push_back(object);
  }
  for (const wire::TouchedName& name : touched.names) {
    if (!holds(kept, name.directory)) objects_.lose_name(name);
  }
  for (const wire::LeaseStep& step : granted.names) {
    if (holds(kept, step.directory)) keep_granted_name(objects_, step);
  }
  keep_moved_names(objects_, copies_, touched);
  objects_.make_room();
}

}  // namespace spate::client
