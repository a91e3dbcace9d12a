// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/cached_objects.h"

namespace spate::client {
namespace {

/// The names that listings add to one directory take at most 1/4 of the cache, and their objects as much again.
constexpr std::size_t kPartOfOneDirectory = 4;

}  // namespace

CachedObject* CachedObjects::find(Handle handle) {
  const auto found = objects_.find(handle);
  return found == objects_.end() ? nullptr : &found->second;
}

const CachedObject* CachedObjects::find(Handle handle) const {
  const auto found = objects_.find(handle);
  return found == objects_.end() ? nullptr : &found->second;
}

bool CachedObjects::in_force(Handle handle, MonoTime now) const {
  const CachedObject* const object = find(handle);
  return object != nullptr && end_of(*object) > now;
}

CachedObject* CachedObjects::use(Handle handle, MonoTime now) {
  CachedObject* const object = find(handle);
  if (object == nullptr || end_of(*object) <= now || changes_.touch(handle)) return nullptr;
  used_.splice(used_.end(), used_, object->place);
  return object;
}

CachedObject& CachedObjects::renewed(Handle handle, MonoTime until) {
  auto [at, fresh] = objects_.try_emplace(handle);
  CachedObject& object = at->second;
  if (fresh) {
    object.place = used_.insert(used_.end(), handle);
  } else {
    used_.splice(used_.end(), used_, object.place);
  }
  // The object may have been changed after its lease expired.
  if (end_of(object) <= clock_.now()) {
    forget_names(handle, object);
    copies_.drop_attributes(handle);
    object.reply.reset();
    object.listed = object.delegated = object.queued = false;
    object.writing.reset();
  }
  object.until = std::max(object.until, until);
  return object;
}

void CachedObjects::drop(Handle handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return;
  changes_.names_lost(handle);
  copies_.drop_attributes(handle);
  copies_.drop_names_of(found->second.name_copies);
  names_ -= found->second.names.size();
  used_.erase(found->second.place);
  objects_.erase(found);
}

void CachedObjects::removed(Handle handle) {
  CachedObject* const object = find(handle);
  if (object == nullptr) return;
  object->name_copies = {};
  copies_.forget_attributes(handle);
  drop(handle);
}

void CachedObjects::drop_all() {
  changes_.all_names_lost();
  copies_.drop_all_attributes();
  copies_.drop_names();
  objects_.clear();
  used_.clear();
  names_ = 0;
  until_ = MonoTime();
}

void CachedObjects::expire(MonoTime now) {
  if (until_ > now) return;
  for (auto at = used_.begin(); at != used_.end();) {
    const Handle handle = *at++;
    if (objects_.at(handle).until <= now) drop(handle);
  }
}

void CachedObjects::put_name(CachedObject& directory, const wire::LeaseStep& step) {
  const auto [at, fresh] = directory.names.try_emplace(step.name, CachedName{step.object, step.type});
  if (fresh) {
    ++names_;
  } else if (at->second.object != step.object) {
    changes_.name_lost(step.directory, step.name);
    at->second = CachedName{step.object, step.type};
  }
}

void CachedObjects::forget_name(CachedObject& directory, const wire::TouchedName& name) {
  changes_.name_lost(name.directory, name.name);
  names_ -= directory.names.erase(name.name);
}

void CachedObjects::lose_name(const wire::TouchedName& name) {
  CachedObject* const directory = find(name.directory);
  if (directory == nullptr) return changes_.name_lost(name.directory, name.name);
  directory->complete = false;
  forget_name(*directory, name);
}

void CachedObjects::forget_names(Handle handle, CachedObject& directory) {
  changes_.names_lost(handle);
  copies_.drop_names_of(directory.name_copies);
  names_ -= directory.names.size();
  directory.names.clear();
  directory.complete = false;
}

void CachedObjects::make_room() {
  while (objects_.size() + names_ > most_ && !used_.empty()) drop(used_.front());
}

bool CachedObjects::make_room_beside(Handle directory) {
  while (objects_.size() + names_ + 2 > most_) {
    if (used_.front() == directory) return false;
    drop(used_.front());
  }
  return true;
}

bool CachedObjects::has_room_for(const CachedObject& directory) const {
  return directory.names.size() < most_ / kPartOfOneDirectory;
}

}  // namespace spate::client
