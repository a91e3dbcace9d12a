// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/kept_objects.h"

namespace spate::client {
namespace {

/// The names that listings add to one directory take at most 1/4 of the cache, and their objects as much again.
constexpr std::size_t kPartOfOneDirectory = 4;

}  // namespace

KeptObject* KeptObjects::find(Handle handle) {
  const auto found = objects_.find(handle);
  return found == objects_.end() ? nullptr : &found->second;
}

const KeptObject* KeptObjects::find(Handle handle) const {
  const auto found = objects_.find(handle);
  return found == objects_.end() ? nullptr : &found->second;
}

bool KeptObjects::in_force(Handle handle, MonoTime now) const {
  const KeptObject* const object = find(handle);
  return object != nullptr && end_of(*object) > now;
}

KeptObject* KeptObjects::use(Handle handle, MonoTime now) {
  KeptObject* const object = find(handle);
  if (object == nullptr || end_of(*object) <= now || changes_.touch(handle)) return nullptr;
  used_.splice(used_.end(), used_, object->place);
  return object;
}

KeptObject& KeptObjects::renewed(Handle handle, MonoTime until) {
  auto [at, fresh] = objects_.try_emplace(handle);
  KeptObject& object = at->second;
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
    object.listed = false;
    object.writing.reset();
  }
  object.until = std::max(object.until, until);
  return object;
}

void KeptObjects::drop(Handle handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return;
  changes_.names_lost(handle);
  copies_.drop_attributes(handle);
  copies_.drop_names_of(found->second.name_copies);
  names_ -= found->second.names.size();
  used_.erase(found->second.place);
  objects_.erase(found);
}

void KeptObjects::drop_all() {
  changes_.all_names_lost();
  copies_.drop_all_attributes();
  copies_.drop_names();
  objects_.clear();
  used_.clear();
  names_ = 0;
  until_ = MonoTime();
}

void KeptObjects::expire(MonoTime now) {
  if (until_ > now) return;
  for (auto at = used_.begin(); at != used_.end();) {
    const Handle handle = *at++;
    if (objects_.at(handle).until <= now) drop(handle);
  }
}

void KeptObjects::put_name(KeptObject& directory, const wire::LeaseStep& step) {
  const auto [at, fresh] = directory.names.try_emplace(step.name, KeptName{step.object, step.type});
  if (fresh) {
    ++names_;
  } else if (at->second.object != step.object) {
    changes_.name_lost(step.directory, step.name);
    at->second = KeptName{step.object, step.type};
  }
}

void KeptObjects::forget_name(KeptObject& directory, const wire::TouchedName& name) {
  changes_.name_lost(name.directory, name.name);
  names_ -= directory.names.erase(name.name);
}

void KeptObjects::lose_name(const wire::TouchedName& name) {
  KeptObject* const directory = find(name.directory);
  if (directory == nullptr) return changes_.name_lost(name.directory, name.name);
  directory->complete = false;
  forget_name(*directory, name);
}

void KeptObjects::forget_names(Handle handle, KeptObject& directory) {
  changes_.names_lost(handle);
  copies_.drop_names_of(directory.name_copies);
  names_ -= directory.names.size();
  directory.names.clear();
  directory.complete = false;
}

void KeptObjects::make_room() {
  while (objects_.size() + names_ > most_ && !used_.empty()) drop(used_.front());
}

bool KeptObjects::make_room_beside(Handle directory) {
  while (objects_.size() + names_ + 2 > most_) {
    if (used_.front() == directory) return false;
    drop(used_.front());
  }
  return true;
}

bool KeptObjects::has_room_for(const KeptObject& directory) const {
  return directory.names.size() < most_ / kPartOfOneDirectory;
}

}  // namespace spate::client
