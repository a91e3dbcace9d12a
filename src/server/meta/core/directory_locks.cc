// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/directory_locks.h"

#include <algorithm>

namespace spate::meta {

DirectoryLocks::Lock& DirectoryLocks::use(Handle handle) {
  std::unique_ptr<Lock>& lock = locks_[handle];
  if (lock == nullptr) lock = std::make_unique<Lock>(executor_);
  ++lock->users;
  return *lock;
}

void DirectoryLocks::drop(Handle handle) {
  const auto found = locks_.find(handle);
  SPATE_CHECK(found != locks_.end() && found->second->users > 0);
  if (--found->second->users == 0) locks_.erase(found);
}

bool LockSet::holds(Handle handle) const {
  return std::any_of(held_.begin(), held_.end(), [handle](const Held& h) { return h.handle == handle; });
}

std::vector<Handle> LockSet::handles() const {
  std::vector<Handle> handles;
  for (const Held& held : held_) handles.push_back(held.handle);
  return handles;
}

bool LockSet::try_take(std::vector<Handle> handles) {
  std::erase_if(handles, [this](Handle handle) { return holds(handle); });
  std::sort(handles.begin(), handles.end());
  handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
  const auto is_free = [this](Handle handle) { return !table_.locks_.contains(handle); };
  if (!std::all_of(handles.begin(), handles.end(), is_free)) return false;
  for (const Handle handle : handles) {
    auto units = table_.use(handle).semaphore.try_acquire(1);
    SPATE_CHECK(units.has_value());
    held_.push_back({handle, *std::move(units)});
  }
  return true;
}

job::Task<Result<void>> LockSet::wait_for(std::vector<Handle> handles, job::StopToken stop) {
  release();
  std::sort(handles.begin(), handles.end());
  handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
  for (const Handle handle : handles) {
    job::Semaphore& semaphore = table_.use(handle).semaphore;
    auto units = co_await semaphore.acquire(1, stop);
    if (!units) {
      table_.drop(handle);
      release();
      co_return std::move(units).error();
    }
    held_.push_back({handle, *std::move(units)});
  }
  co_return {};
}

void LockSet::release() {
  while (!held_.empty()) {
    const Handle handle = held_.back().handle;
    held_.pop_back();  // first returns the units, since the semaphore is destroyed with its last user
    table_.drop(handle);
  }
}

}  // namespace spate::meta
