// SPDX-License-Identifier: Apache-2.0
// WrittenData: what one open knows about the file's datafiles, and about its own writes that are not synced.
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

/// Remembers what was written through one open. Sends no messages. One executor. Life cycle: construct -> [keep_in() or
/// inherit()] -> calls -> leave() -> destroyed.
class WrittenData {
 public:
  /// All parameters outlive the WrittenData. `created`, `truncated`: by this open.
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
  /// It is not known whether a request took effect, or others may have written in between.
  void note_uncertain() { uncertain_ = true; }
  /// After a lost write, too: replies to earlier writes count the lost bytes.
  bool uncertain() const { return uncertain_ || unsynced_->losses() != losses_before_; }
  /// Acknowledged writes are lost. The next process tells it, too.
  void note_loss();
  /// Whether a next process will know this open, if there may be one.
  bool has_record() const { return record_ != nullptr || cluster_.session().handover() == nullptr; }
  /// The file was truncated, so the meta server knows more about its datafiles now than this open does.
  void note_truncated();

  /// Size, times and change counter for the close request. Nothing if this open does not know the state of each
  /// datafile after the last change.
  std::optional<wire::DataSummary> summary(const Distribution& distribution) const;
  /// The slots whose state summary() lacks. None if it does not help to ask for them.
  std::vector<std::uint32_t> unknown_slots() const;
  /// Takes the answers for all of those slots. The servers know the writes that bypassed them, because this client has
  /// returned its leases.
  void learn(const std::vector<SlotState>& slots);

  /// Whether this open has made the file.
  bool made_file() const { return made_file_; }

  UnsyncedFile& unsynced() { return *unsynced_; }
  /// How many losses this open was told of.
  std::uint64_t losses_told() const { return losses_told_; }
  /// kLostWrite if a write was lost after the first `before` losses, which this open's user knows of. From then on that
  /// loss counts as reported.
  Result<void> tell_losses(std::uint64_t before);
  /// The open ends. `removed`: the file has no name any more.
  void leave(bool removed);

  /// From now on `record` has what the next process must know about this open (client/session/handover_state.h).
  /// `record` outlives this object.
  void keep_in(HandoverState::Open& record) { record_ = &record; }
  /// An earlier process made this open, and `record` describes it. Includes keep_in(). This process does not know which
  /// writes are unsynced, so the next sync covers the whole file.
  void inherit(HandoverState::Open& record);
  /// Records that a sync has succeeded.
  void keep_synced();
  /// The close of this open is about to be sent. A next process would send the same request with the same id, because
  /// the server may have carried out this one by then.
  void keep_close(const wire::CloseRequest& request, std::uint64_t request_id);

 private:
  void keep_unsynced(const std::vector<SlotState>& slots);
  ServerId server_of_slot(std::uint32_t slot) const;

  Cluster& cluster_;
  const Layout& layout_;
  /// [slot] the state of its datafile, as far as this open knows.
  std::vector<std::optional<wire::DatafileState>> states_;
  /// [slot] writes bypassed its server, so replies do not give the datafile's state.
  std::vector<bool> bypassed_;
  const bool made_file_;
  bool uncertain_ = false;
  UnsyncedFiles::FilePtr unsynced_;
  const std::uint64_t losses_before_;  // before this open began
  std::uint64_t losses_told_;
  HandoverState::Open* record_ = nullptr;
};

}  // namespace spate::client
