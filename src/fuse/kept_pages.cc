// SPDX-License-Identifier: Apache-2.0
#include "fuse/kept_pages.h"

namespace spate::fuse {

bool KeptPages::still_true(const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find(attributes.handle);
  const bool same = found != seen_.end() && attributes.size_known && found->second.same(attributes);
  note(attributes);
  return same;
}

void KeptPages::agree(const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  note(attributes);
}

/// With the lock held.
void KeptPages::note(const Attributes& attributes) {
  erase(attributes.handle);
  if (!attributes.size_known) return;
  recent_.push_front(attributes.handle);
  seen_.emplace(attributes.handle, Seen{attributes.size, attributes.change_sum, recent_.begin()});
  if (seen_.size() > kMost) erase(Handle(recent_.back()));
}

void KeptPages::forget(Handle handle) {
  const std::lock_guard lock(mutex_);
  erase(handle);
}

void KeptPages::erase(Handle handle) {
  const auto found = seen_.find(handle);
  if (found == seen_.end()) return;
  recent_.erase(found->second.place);
  seen_.erase(found);
}

}  // namespace spate::fuse
