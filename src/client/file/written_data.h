// SPDX-License-Identifier: Apache-2.0
// WrittenData: the knowledge of one open about the file's datafiles, and about its own writes that are not synced.
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

/// Size, allocation, mtime and change sum of all slots together. `states` holds each slot once.
wire::DataSummary summarize(const Distribution& distribution, std::span<const SlotState> states);

/// Remembers what one open file has written, and sends no messages. One executor. Life cycle: construct -> [keep_in()
/// or inherit()] -> calls -> leave() -> destroyed.
class WrittenData {
 public:
  /// All parameters outlive it. `created`, `truncated`: by this open.
  struct Params {
    Handle handle;
    const Layout& layout;
    bool created = false;
    bool truncated = false;
  };
  WrittenData(Cluster& cluster, Params params);
  WrittenData(const WrittenData&) = delete;
  WrittenData& operator=(const WrittenData&) = delete;

  /// Notes the states from replies to writes.
  void note(const std::vector<SlotState>& slots);
  /// The effect of a request is not known, or others may have written in between.
  void note_uncertain() { uncertain_ = true; }
  bool uncertain() const { return uncertain_; }
  /// The file was truncated, so the meta server knows its datafiles better now.
  void note_truncated();

  /// Size, times and change counter for the close request. Nothing unless this open knows the state of each datafile
  /// after the last change.
  std::optional<wire::DataSummary> summary(const Distribution& distribution) const;
  /// The slots that summary() lacks. None if asking for them does not help.
  std::vector<std::uint32_t> unknown_slots() const;
  /// Takes answers for all of those slots. The servers know the writes that bypassed them, because this client has
  /// returned its leases.
  void learn(const std::vector<SlotState>& slots);

  /// Whether this open has made the file.
  bool made_file() const { return made_file_; }

  UnsyncedFile& unsynced() { return *unsynced_; }
  /// How many losses were reported to this open.
  std::uint64_t losses_told() const { return losses_told_; }
  /// kLostWrite if a write was lost after the `before` losses that this open's user knows. From now on it counts as
  /// reported.
  Result<void> tell_losses(std::uint64_t before);
  /// The open ends. `removed`: the file has no name any more.
  void leave(bool removed);

  /// From now on the next process finds in `record` what it must know about this open
  /// (client/session/handover_state.h). `record` outlives it.
  void keep_in(HandoverState::Open& record) { record_ = &record; }
  /// This open was made by an earlier process, and `record` describes it; includes keep_in(). It is not known what was
  /// written and not synced, so the next sync covers everything.
  void inherit(HandoverState::Open& record);
  /// Records that a sync has succeeded.
  void keep_synced();
  /// The open's close is about to be sent. The next process sends the same request with the same id, because this one
  /// may have been done by then.
  void keep_close(const wire::CloseRequest& request, std::uint64_t request_id);

 private:
  void keep_unsynced(const std::vector<SlotState>& slots);
  ServerId server_of_slot(std::uint32_t slot) const;

  Cluster& cluster_;
  const Layout& layout_;
  /// [slot] the state of its datafile, as far as this open knows.
  std::vector<std::optional<wire::DatafileState>> states_;
  const bool made_file_;
  bool uncertain_ = false;
  bool wrote_by_itself_ = false;  // writes bypassed the servers, so replies do not give the datafiles' states
  UnsyncedFiles::FilePtr unsynced_;
  std::uint64_t losses_told_;
  HandoverState::Open* record_ = nullptr;
};

}  // namespace spate::client
