// SPDX-License-Identifier: Apache-2.0
#include "client/request_slots.h"

namespace spate::client {

void RequestSlots::reset(std::uint16_t count) {
  if (units_ != nullptr) return;  // a resumed session keeps its slots: their sequences must go on
  units_ = std::make_unique<job::Semaphore>(executor_, count);
  sequences_.assign(count, 0);
  for (std::uint16_t slot = count; slot > 0; --slot) free_.push_back(static_cast<std::uint16_t>(slot - 1));
}

job::Task<Result<RequestSlots::Lease>> RequestSlots::acquire(job::StopToken stop) {
  SPATE_CHECK(ready());
  auto units = co_await units_->acquire(1, stop);
  if (!units) co_return std::move(units).error();
  const std::uint16_t slot = free_.back();
  free_.pop_back();
  ++sequences_[slot];
  co_return Lease(*this, slot, *std::move(units));
}

}  // namespace spate::client
