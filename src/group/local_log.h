// SPDX-License-Identifier: Apache-2.0
// LocalLog: this member's log, and the records that result from it.
#pragma once

#include <optional>
#include <vector>

#include "group/messages.h"
#include "job/semaphore.h"
#include "job/storage.h"
#include "trove/replicated_keyval.h"

namespace spate::group {

/// Life cycle: construct -> open() awaited -> the other calls. One executor; the store, and the keyval over it, outlive
/// it. Calls that change the log run one after another, in the order of the calls.
class LocalLog {
 public:
  /// `boot` differs after each boot of the machine.
  LocalLog(job::KeyvalContext& store, trove::ReplicatedKeyval& keyval, std::uint64_t boot);

  job::Task<Result<void>> open();

  /// Valid while the store does not lead.
  trove::LogPosition last() const { return position_.last; }
  std::uint64_t first() const { return position_.first; }
  /// The machine went down since the log was written, so entries that this member has acknowledged may be lost.
  bool tail_unknown() const { return tail_unknown_; }
  bool incomplete() const { return incomplete_; }
  /// The store is empty: it was formatted, or it was lost.
  bool is_new() const { return is_new_; }
  /// Declares the log complete: another member found that it holds all entries, or it holds the most of all members.
  job::Task<Result<void>> tail_is_known();

  /// The epoch of the entry at `index`; nothing if it is no longer kept, or does not exist yet.
  job::Task<Result<std::optional<std::uint64_t>>> epoch_of(std::uint64_t index);
  /// Entries from `index` on, in order; at least one, up to about `bytes`.
  job::Task<Result<std::vector<EntryRef>>> entries_from(std::uint64_t index, std::size_t bytes);

  /// Appends the entries that it lacks, after `position`. False: this log differs at that position, and nothing was
  /// changed.
  job::Task<Result<bool>> append(trove::LogPosition position, std::vector<EntryRef> entries);
  /// Syncs the log, and yields the index up to which it is synced.
  job::Task<Result<std::uint64_t>> sync();

  /// Erases everything. From then on until end_copy() the store is incomplete, even after a crash.
  job::Task<Result<void>> begin_copy();
  job::Task<Result<void>> add_page(std::vector<trove::KeyValue> page);
  job::Task<Result<void>> end_copy(trove::LogPosition position);

  /// Waits until all earlier calls have ended.
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
