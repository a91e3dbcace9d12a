// SPDX-License-Identifier: Apache-2.0
// What the next process must know of an open file (client/ledger.h).
#include <algorithm>

#include "client/bypass.h"
#include "client/file_operation.h"

namespace spate::client {

void File::keep_in(Ledger::Open& record) {
  record_ = &record;
  record.reads_count = reads_count_;
}

/// What was written is not known here, and may not be synced: the next sync covers everything, and the meta server asks
/// for the size itself after the close.
void File::inherit(Ledger::Open& record) {
  record_ = &record;
  reads_count_ = record.reads_count;
  if (!allows(rights_, Rights::kWrite)) return;
  uncertain_ = true;
  Ledger& ledger = *cluster_.ledger();
  lost_write_ = record.lost_write || (record.unsynced != 0 && record.unsynced != ledger.write_number());
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].dirty = true;
    if (record.unsynced == 0) continue;
    const ServerEntry* server = cluster_.options().map.server_of_target(layout_.slots[slot].targets.front());
    if (server != nullptr) slots_[slot].unsynced_since = ledger.last_writer(server->id);
  }
}

job::Task<void> File::hand_over(Limits limits) { co_await bypass_->give_back(limits); }

void File::keep_unsynced(const std::vector<SlotState>& slots) {
  std::uint64_t number = cluster_.ledger()->write_number();
  if (record_->unsynced == 0) record_->unsynced = number;
  for (const SlotState& s : slots) {
    const ServerEntry* server = cluster_.options().map.server_of_target(layout_.slots[s.slot].targets.front());
    if (server != nullptr) number = cluster_.ledger()->note_written(server->id, s.incarnation);
  }
  record_->lost_write = lost_write_;
}

void File::keep_synced() {
  const bool all =
      std::all_of(slots_.begin(), slots_.end(), [](const SlotKnowledge& slot) { return !slot.unsynced_since; });
  if (all) record_->unsynced = 0;
  record_->lost_write = lost_write_;
}

}  // namespace spate::client
