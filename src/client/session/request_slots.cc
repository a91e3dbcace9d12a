// SPDX-License-Identifier: Apache-2.0
#include "client/session/request_slots.h"

#include <algorithm>

#include "client/session/handover_state.h"
#include "model/defect.h"

namespace spate::client {

void RequestSlots::reset(std::uint16_t count) {
  if (units_ != nullptr) return;  // a resumed session keeps its slots, because their sequences must continue
  if (handover_ != nullptr) count = static_cast<std::uint16_t>(std::min<std::uint32_t>(count, handover_->slot_count()));
  units_ = std::make_unique<job::Semaphore>(executor_, count);
  sequences_.assign(count, 0);
  inherited_.assign(count, false);
  for (std::uint16_t slot = 0; slot < count && handover_ != nullptr; ++slot) {
    const HandoverState::RequestSlot last = handover_->slot(slot);
    sequences_[slot] = last.sequence;
    inherited_[slot] = last.may_come_again();
  }
  // Slots whose request may come again are used last, because a new request makes the server forget the old answer.
  for (const bool inherited : {true, false}) {
    for (std::uint16_t slot = count; slot > 0; --slot) {
      if (inherited_[slot - 1U] == inherited) free_.push_back(static_cast<std::uint16_t>(slot - 1));
    }
  }
}

/// A new request in a slot makes the server forget the slot's last answer. So slots whose call is not answered yet come
/// last. Among these this takes the one that has been free for longest, because one call may make any number of
/// requests.
std::vector<std::uint16_t>::iterator RequestSlots::best_free() {
  const auto may_be_used = [&](std::uint16_t slot) { return !handover_->slot(slot).may_come_again(); };
  if (handover_ == nullptr || planted(Defect::kEarlySlot)) return free_.end() - 1;
  const auto last = std::find_if(free_.rbegin(), free_.rend(), may_be_used);
  if (last != free_.rend()) return last.base() - 1;
  const auto own = std::find_if(free_.begin(), free_.end(), [&](std::uint16_t slot) { return !inherited_[slot]; });
  return own != free_.end() ? own : free_.begin();
}

std::uint16_t RequestSlots::take(Params params) {
  const auto is_its_own = [&](std::uint16_t slot) {
    if (!inherited_[slot]) return false;
    const HandoverState::RequestSlot last = handover_->slot(slot);
    return last.request_id == params.request_id && last.digest == params.digest;
  };
  auto place = params.request_id == 0 ? free_.end() : std::find_if(free_.begin(), free_.end(), is_its_own);
  const bool again = place != free_.end();
  if (!again) place = best_free();
  const std::uint16_t slot = *place;
  free_.erase(place);
  inherited_[slot] = false;
  if (again) return slot;
  ++sequences_[slot];
  if (handover_ != nullptr) handover_->begin_request(slot, {sequences_[slot], params.request_id, params.digest});
  return slot;
}

void RequestSlots::give_back(std::uint16_t slot) {
  if (handover_ != nullptr) handover_->end_request(slot);
  free_.push_back(slot);
}

job::Task<Result<RequestSlots::Use>> RequestSlots::acquire(Params params, job::StopToken stop) {
  SPATE_CHECK(ready());
  SPATE_CO_TRY(auto units, co_await units_->acquire(1, stop));
  const std::uint16_t slot = take(params);
  co_return Use(*this, slot, std::move(units));
}

}  // namespace spate::client
