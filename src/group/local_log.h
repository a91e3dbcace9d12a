// SPDX-License-Identifier: Apache-2.0
// LocalLog: the log of this member, and the records that follow from it.
#pragma once

#include <optional>
#include <vector>

#include "group/messages.h"
#include "job/semaphore.h"
#include "job/storage.h"
#include "trove/replicated_keyval.h"

namespace spate::group {

/// Life: construct -> open() -> the rest. One executor; store and keyval, which is the store's, outlive it. What
/// changes the log runs one after another, in the order of the calls.
class LocalLog {
 public:
  /// `boot` differs after each start of the machine.
  LocalLog(job::KeyvalContext& store, trove::ReplicatedKeyval& keyval, std::uint64_t boot);

  job::Task<Result<void>> open();

  /// While the store does not lead.
  trove::LogPosition last() const { return position_.last; }
  std::uint64_t first() const { return position_.first; }
  /// The machine went down since the log was written: entries that this member has acknowledged may be gone.
  bool tail_unknown() const { return tail_unknown_; }
  bool incomplete() const { return incomplete_; }
  /// The store is empty: it was formatted, or it was lost.
  bool is_new() const { return is_new_; }
  /// This member holds all entries, as another one has found, or is the one that holds most.
  job::Task<Result<void>> tail_is_known();

  /// The epoch of the entry at `index`; nothing when it is not kept any more, or not there yet.
  job::Task<Result<std::optional<std::uint64_t>>> epoch_of(std::uint64_t index);
  /// Entries from `index` on, in order, some at least, up to about `bytes`.
  job::Task<Result<std::vector<EntryRef>>> entries_from(std::uint64_t index, std::size_t bytes);

  /// Appends what it has not, after `position`. False: this log is another one there, and nothing was changed.
  job::Task<Result<bool>> append(trove::LogPosition position, std::vector<EntryRef> entries);
  /// Yields up to where the log is synced.
  job::Task<Result<std::uint64_t>> sync();

  /// Forgets everything. From then on, until end_copy(), it is incomplete, also after a crash.
  job::Task<Result<void>> begin_copy();
  job::Task<Result<void>> add_page(std::vector<trove::KeyValue> page);
  job::Task<Result<void>> end_copy(trove::LogPosition position);

  /// Waits until everything before has been done.
  job::Task<void> settle();

 private:
  job::Transaction begin() { return {store_, keyval_.begin_unlogged()}; }
  job::Task<Result<bool>> append_in_turn(trove::LogPosition position, const std::vector<EntryRef>& entries);
  job::Task<Result<bool>> matches(trove::LogPosition position);
  job::Task<Result<bool>> wipe_some();
  Result<void> put_entry(job::Transaction& to, const Bytes& entry, trove::LogPosition at);

  job::KeyvalContext& store_;
  trove::ReplicatedKeyval& keyval_;
  const std::uint64_t boot_;
  job::Semaphore turn_;
  trove::PositionRecord position_;
  bool tail_unknown_ = false;
  bool incomplete_ = false;
  bool is_new_ = false;
};

}  // namespace spate::group
