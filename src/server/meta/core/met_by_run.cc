// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/met_by_run.h"

#include <algorithm>

#include "server/meta/core/parts.h"

namespace spate::meta {

void MetByRun::begin() {
  objects_.clear();
  const Leases* const leases = parts_.leases;
  possible_ = leases != nullptr && leases->delegates();
  if (possible_) ends_ = leases->ends_of_delegations();
}

void MetByRun::meet_all(const std::vector<Handle>& objects) {
  for (const Handle object : objects) meet(object);
}

bool MetByRun::look(Handle object) {
  if (!parts_.leases->meets(operation_, object, ends_)) return false;
  if (std::ranges::find(objects_, object) == objects_.end()) objects_.push_back(object);
  return true;
}

}  // namespace spate::meta
