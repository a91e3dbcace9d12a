// SPDX-License-Identifier: Apache-2.0
#include "server/io/capability_cache.h"

namespace spate::io {

bool CapabilityCache::genuine(const Capability& capability) {
  const auto young = young_.find(capability.mac);
  if (young != young_.end()) return young->second == capability;
  const auto old = old_.find(capability.mac);
  if (old != old_.end()) {
    if (old->second != capability) return false;
    old_.erase(old);
    add(capability);
    return true;
  }
  ++verifications_;
  if (!verify(server_keys_, fs_, capability)) return false;
  add(capability);
  return true;
}

void CapabilityCache::add(const Capability& capability) {
  if (young_.size() >= half_) {
    old_ = std::move(young_);
    young_.clear();
  }
  young_.emplace(capability.mac, capability);
}

}  // namespace spate::io
