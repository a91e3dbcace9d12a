// SPDX-License-Identifier: Apache-2.0
// WrittenData: what one open of a file knows of its datafiles, and of what it has written and not synced.
#pragma once

#include <optional>
#include <vector>

#include "client/cluster.h"
#include "client/data/slot_state.h"
#include "client/data/unsynced.h"
#include "client/session/handover_state.h"
#include "dist/distribution.h"
#include "wire/meta_messages.h"

namespace spate::client {

/// Size, allocation, mtime and change sum of all slots together; `states` holds each slot once.
wire::DataSummary summarize(const Distribution& distribution, std::span<const SlotState> states);

/// Remembers what one open file has written, and sends no messages. One executor. Life cycle: construct -> [keep_in()
/// or inherit()] -> calls -> leave() -> destroyed.
class WrittenData {
 public:
  /// All outlive it. `created`, `truncated`: by this open.
  struct Params {
    Handle handle;
    const Layout& layout;
    bool created = false;
    bool truncated = false;
  };
  WrittenData(Cluster& cluster, Params params);
  WrittenData(const WrittenData&) = delete;
  WrittenData& operator=(const WrittenData&) = delete;

  /// Replies to writes have told this of slots.
  void note(const std::vector<SlotState>& slots);
  /// Something was tried whose effect is not known, or others may have written in between.
  void note_uncertain() { uncertain_ = true; }
  bool uncertain() const { return uncertain_; }
  /// The file was truncated: the meta server knows its datafiles better now.
  void note_truncated();

  /// Size, times and change counter for the close request. Nothing unless this open has seen the state of each datafile
  /// after the last change.
  std::optional<wire::DataSummary> summary(const Distribution& distribution) const;
  /// The slots that summary() misses; none when asking for them does not help.
  std::vector<std::uint32_t> unknown_slots() const;
  /// Answers for all of those. What this client has written by itself is known to the servers, since it has given its
  /// leases back.
  void learn(const std::vector<SlotState>& slots);

  /// This open has made the file.
  bool made_file() const { return made_file_; }

  UnsyncedFile& unsynced() { return *unsynced_; }
  /// How many losses this open has been told of.
  std::uint64_t losses_told() const { return losses_told_; }
  /// kLostWrite when a write was lost since this open's user was told of `before` losses. From now on it has been told.
  Result<void> tell_losses(std::uint64_t before);
  /// The open ends. `removed`: the file has no name any more.
  void leave(bool removed);

  /// From now on the next process finds in `record` what it must know of this open (client/session/handover_state.h);
  /// `record` outlives it.
  void keep_in(HandoverState::Open& record) { record_ = &record; }
  /// This open is an earlier process's, of which `record` tells; keep_in() included. What was written is not known
  /// here and may not be synced: the next sync covers everything.
  void inherit(HandoverState::Open& record);
  /// A sync has succeeded.
  void keep_synced();
  /// The open's close is about to be sent: the next process sends the same request under the same id, because this one
  /// may have been carried out by then.
  void keep_close(const wire::CloseRequest& request, std::uint64_t request_id);

 private:
  void keep_unsynced(const std::vector<SlotState>& slots);
  ServerId server_of_slot(std::uint32_t slot) const;

  Cluster& cluster_;
  const Layout& layout_;
  std::vector<std::optional<wire::DatafileState>> states_;  // [slot] what this open knows of its datafile
  const bool made_file_;
  bool uncertain_ = false;
  bool wrote_by_itself_ = false;  // the datafiles' states are not known from replies
  UnsyncedFiles::FilePtr unsynced_;
  std::uint64_t losses_told_;
  HandoverState::Open* record_ = nullptr;
};

}  // namespace spate::client
