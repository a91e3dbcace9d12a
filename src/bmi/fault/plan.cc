// SPDX-License-Identifier: Apache-2.0
#include "bmi/fault/plan.h"

#include "base/check.h"

namespace spate::bmi::fault {

void Plan::add(const Fault& fault) {
  SPATE_CHECK(fault.nth >= 1);
  const std::lock_guard lock(mutex_);
  faults_.push_back(fault);
}

void Plan::clear() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
}

std::optional<Fault> Plan::pass(Point point) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = ++passed_.at(static_cast<std::size_t>(point));
  for (const Fault& fault : faults_) {
    if (fault.point != point || number < fault.nth || number - fault.nth >= fault.count) continue;
    ++fired_;
    return fault;
  }
  return std::nullopt;
}

std::uint64_t Plan::passed(Point point) const {
  const std::lock_guard lock(mutex_);
  return passed_.at(static_cast<std::size_t>(point));
}

std::uint64_t Plan::fired() const {
  const std::lock_guard lock(mutex_);
  return fired_;
}

}  // namespace spate::bmi::fault
