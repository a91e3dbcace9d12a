// SPDX-License-Identifier: Apache-2.0
#include "client/file/written_data.h"

#include <algorithm>
#include <atomic>

namespace spate::client {

wire::DataSummary summarize(const Distribution& distribution, std::span<const SlotState> states) {
  wire::DataSummary summary;
  std::vector<std::uint64_t> sizes(distribution.slot_count(), 0);
  for (const SlotState& s : states) {
    sizes[s.slot] = s.state.size;
    summary.allocated_bytes += s.state.allocated_bytes;
    summary.mtime = std::max(summary.mtime, s.state.mtime);
    summary.change_sum += s.state.change_counter;
  }
  summary.size = distribution.logical_size(sizes);
  return summary;
}

WrittenData::WrittenData(Cluster& cluster, Params params)
    : cluster_(cluster),
      layout_(params.layout),
      states_(layout_.slots.size()),
      bypassed_(layout_.slots.size()),
      made_file_(params.created),
      unsynced_(
          cluster.unsynced().join(params.handle, static_cast<std::uint32_t>(layout_.slots.size()), params.created)),
      losses_before_(unsynced_->losses()),
      losses_told_(unsynced_->losses_told()) {
  if (params.created) {
    for (auto& state : states_) state.emplace();  // nothing is written yet, so all states are zero
  }
  if (params.truncated) unsynced_->note_all();
}

void WrittenData::note(const std::vector<SlotState>& slots) {
  unsynced_->note_written(slots);
  for (const SlotState& s : slots) {
    if (s.by_client) {
      bypassed_[s.slot] = true;
      continue;
    }
    // Replies of writes that ran at the same time may come in any order.
    std::optional<wire::DatafileState>& state = states_[s.slot];
    if (!state || wire::not_older(s.state, *state)) state = s.state;
  }
  if (record_ != nullptr) keep_unsynced(slots);
}

void WrittenData::note_truncated() {
  for (auto& state : states_) state.reset();
  unsynced_->note_all();
}

/// If this open has made the file, the state is known before the first write: there is no data.
std::optional<wire::DataSummary> WrittenData::summary(const Distribution& distribution) const {
  if (uncertain()) return std::nullopt;
  std::vector<SlotState> states;
  for (std::uint32_t slot = 0; slot < states_.size(); ++slot) {
    if (bypassed_[slot] || !states_[slot]) return std::nullopt;
    states.push_back(SlotState{slot, *states_[slot], {}});
  }
  return summarize(distribution, states);
}

void WrittenData::note_loss() {
  uncertain_ = true;
  unsynced_->note_loss();
  if (record_ != nullptr) record_->lost_write = true;
}

std::vector<std::uint32_t> WrittenData::unknown_slots() const {
  std::vector<std::uint32_t> slots;
  if (uncertain()) return slots;
  for (std::uint32_t slot = 0; slot < states_.size(); ++slot) {
    if (bypassed_[slot] || !states_[slot]) slots.push_back(slot);
  }
  return slots;
}

void WrittenData::learn(const std::vector<SlotState>& slots) {
  for (const SlotState& s : slots) {
    states_[s.slot] = s.state;
    bypassed_[s.slot] = false;
  }
}

/// Reports the losses after the first `before` ones. This open's user knew of those when the call began.
Result<void> WrittenData::tell_losses(std::uint64_t before) {
  losses_told_ = std::max(losses_told_, unsynced_->losses());
  unsynced_->tell(losses_told_);
  if (losses_told_ == before) return {};
  // It must not go on counting the lost bytes.
  cluster_.attributes().begin_writing(unsynced_->handle);
  cluster_.attributes().end_writing(unsynced_->handle, std::nullopt);
  return Errc::kLostWrite;
}

void WrittenData::leave(bool removed) {
  unsynced_->records().erase(record_);
  cluster_.unsynced().leave(unsynced_, removed);
}

ServerId WrittenData::server_of_slot(std::uint32_t slot) const {
  return server_of(layout_.slots[slot].targets.front());
}

void WrittenData::inherit(HandoverState::Open& record) {
  record_ = &record;
  uncertain_ = true;  // so the meta server asks for the size itself after the close
  HandoverState& handover = *cluster_.session().handover();
  unsynced_->note_all();
  if (record.lost_write || (record.unsynced != 0 && record.unsynced != handover.write_number())) unsynced_->note_loss();
  if (record.unsynced == 0) return;
  unsynced_->records().insert(record_);
  for (std::uint32_t slot = 0; slot < layout_.slots.size(); ++slot) {
    const auto writer = handover.last_writer(server_of_slot(slot));
    if (writer) unsynced_->inherit(slot, *writer);
  }
}

void WrittenData::keep_unsynced(const std::vector<SlotState>& slots) {
  HandoverState& handover = *cluster_.session().handover();
  unsynced_->records().insert(record_);
  const std::uint64_t number = handover.write_number();
  for (HandoverState::Open* const record : unsynced_->records()) {
    if (record->unsynced == 0) record->unsynced = number;
  }
  for (const SlotState& s : slots) {
    if (layout_.redundancy == Redundancy::kNone) handover.note_written(server_of_slot(s.slot), s.incarnation);
  }
  record_->lost_write = losses_told_ != unsynced_->losses();
}

void WrittenData::keep_synced() {
  if (record_ == nullptr) return;
  for (HandoverState::Open* const record : unsynced_->records()) {
    if (unsynced_->all_safe()) record->unsynced = 0;
  }
  record_->lost_write = false;  // this open's user has just been told
}

void WrittenData::keep_close(const wire::CloseRequest& request, std::uint64_t request_id) {
  if (record_ == nullptr) return;
  unsynced_->records().erase(record_);  // after the close the record may describe another open
  record_->close_data = request.data;
  record_->close_atime = request.atime;
  record_->close_request_id = request_id;
  std::atomic_ref(record_->closing).store(true, std::memory_order_release);
  record_ = nullptr;
}

}  // namespace spate::client
