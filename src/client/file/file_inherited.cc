// SPDX-License-Identifier: Apache-2.0
// What the next process must know of an open file (client/session/handover_state.h).
#include <atomic>

#include "client/bypass/bypass.h"
#include "client/file/file_operation.h"

namespace spate::client {

void File::keep_in(HandoverState::Open& record) {
  record_ = &record;
  record.reads_count = reads_count_;
  if (by_user_) record.open_flags |= wire::kOpenByUser;
}

/// What was written is not known here, and may not be synced: the next sync covers everything, and the meta server asks
/// for the size itself after the close.
void File::inherit(HandoverState::Open& record) {
  record_ = &record;
  reads_count_ = record.reads_count;
  if (!allows(rights_, Rights::kWrite)) return;
  uncertain_ = true;
  HandoverState& handover = *cluster_.handover();
  unsynced_->note_all();
  if (record.lost_write || (record.unsynced != 0 && record.unsynced != handover.write_number())) unsynced_->note_loss();
  if (record.unsynced == 0) return;
  unsynced_->records().insert(record_);
  for (std::uint32_t slot = 0; slot < layout_.slots.size(); ++slot) {
    const auto writer = handover.last_writer(server_of(layout_.slots[slot].targets.front()));
    if (writer) unsynced_->inherit(slot, *writer);
  }
}

job::Task<void> File::hand_over(Limits limits) { co_await bypass_->give_back(limits); }

void File::keep_unsynced(const std::vector<SlotState>& slots) {
  unsynced_->records().insert(record_);
  std::uint64_t number = cluster_.handover()->write_number();
  for (HandoverState::Open* const record : unsynced_->records()) {
    if (record->unsynced == 0) record->unsynced = number;
  }
  for (const SlotState& s : slots) {
    const ServerId server = server_of(layout_.slots[s.slot].targets.front());
    number = cluster_.handover()->note_written(server, s.incarnation);
  }
  record_->lost_write = losses_told_ != unsynced_->losses();
}

void File::keep_synced() {
  for (HandoverState::Open* const record : unsynced_->records()) {
    if (unsynced_->all_safe()) record->unsynced = 0;
  }
  record_->lost_write = false;  // it has just been told
}

/// The next process sends the same request under the same id: this one may have been carried out by then.
void File::keep_close(const wire::CloseRequest& request, std::uint64_t request_id) {
  unsynced_->records().erase(record_);  // once it is closed the record may be another one's
  record_->close_data = request.data;
  record_->close_atime = request.atime;
  record_->close_cause = request_id;
  std::atomic_ref(record_->closing).store(true, std::memory_order_release);
  record_ = nullptr;
}

}  // namespace spate::client
