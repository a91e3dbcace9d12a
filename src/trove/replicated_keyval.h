// SPDX-License-Identifier: Apache-2.0
// ReplicatedKeyval: a keyval store whose commits become entries of a log that the other members of a group receive.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/unique_function.h"
#include "trove/keyval.h"
#include "trove/log_entry.h"

namespace spate::trove {

struct ReplicatedOptions {
  /// Entries that stay in the store for members that come back.
  std::uint64_t kept_entries = 50'000;
};

/// A commit completes when it is *decided*: applied here, so that the next transaction may build on it. A server that
/// reports a commit to others first waits until the commit is replicated, too (group::Member::pass). kMachine commits
/// and syncs complete when synced() says that all members have synced that far.
///
/// Life cycle: construct -> (unlogged transactions) -> lead() -> transactions -> stop_leading() -> destroyed. A commit
/// while the store does not lead fails with kCancelled and has no effect. One thread uses it; the inner store outlives
/// it.
class ReplicatedKeyval final : public Keyval, private CommitObserver {
 public:
  ReplicatedKeyval(Keyval& inner, ReplicatedOptions options);
  ~ReplicatedKeyval() override;

  std::unique_ptr<Transaction> begin() override;
  bool post_sync(void* user, KeyvalCompletion& done) override;
  std::size_t test(std::span<KeyvalCompletion> out) override;
  int wait_descriptor() const override { return inner_.wait_descriptor(); }
  bool prepare_to_wait() override { return ready_.empty() && inner_.prepare_to_wait(); }
  std::string describe() const override { return "replicated " + inner_.describe(); }
  void observe_commits(CommitObserver* observer) override;
  bool short_of_space() const override { return short_of_space_ || inner_.short_of_space(); }
  bool lacks_copies() const override { return lacks_copies_; }
  void trim_memory() override { inner_.trim_memory(); }

  // For the group.
  /// Begins a transaction that does not enter the log: for reads, and for the writes of a member that does not lead.
  std::unique_ptr<Transaction> begin_unlogged();
  bool post_local_sync(void* user, KeyvalCompletion& done) { return inner_.post_sync(user, done); }
  /// From now on commits are entries of `epoch` after `last`; the entries from `first` on are in the store.
  void lead(std::uint64_t epoch, LogPosition last, std::uint64_t first);
  void stop_leading() { leading_ = false; }
  bool leading() const { return leading_; }
  /// The last entry that is decided.
  LogPosition last() const { return last_; }
  std::uint64_t kept_entries() const { return options_.kept_entries; }
  /// Begins a transaction that writes only a mark of the epoch. Its entry is the first of each epoch. So if an earlier
  /// primary has left entries at the end of another member's log, that log is recognized as a different one.
  std::unique_ptr<Transaction> begin_mark();
  /// Whether fewer members serve than the group's `min`. lacks_copies() reports it.
  void lacks_copies(bool does) { lacks_copies_ = does; }
  /// True: a decided commit could not be applied. The store differs from its log, so it must not answer anybody.
  bool broken() const { return broken_; }
  /// Called for each entry, when it is decided.
  void on_entry(UniqueFunction<void(LogPosition at, std::shared_ptr<const Bytes> entry)> action) {
    on_entry_ = std::move(action);
  }
  /// Called when somebody begins to wait for synced().
  void on_sync_wanted(UniqueFunction<void()> action) { on_sync_wanted_ = std::move(action); }
  /// All members have synced their logs up to `index`.
  void synced(std::uint64_t index);
  /// The index that synced() must reach to complete all waiting operations.
  std::uint64_t sync_wanted() const { return waiting_.empty() ? 0 : waiting_.rbegin()->first; }
  /// Whether another member is short of space. short_of_space() reports that, too.
  void others_short_of_space(bool is) { short_of_space_ = is; }
  /// The store no longer leads: operations that wait for a sync fail with `status`.
  void fail_waiting(Errc status);

 private:
  class LoggedTransaction;
  struct Commit {
    std::uint64_t index = 0;
    Durability durability = Durability::kProcess;
  };
  void decided(WriteSet& writes) override;
  bool refuse(Errc status, void* user, KeyvalCompletion& done) const;
  bool commit(Transaction& inner, Durability durability, void* user, KeyvalCompletion& done);
  bool finish(const Commit& commit, KeyvalCompletion& done);
  void wait_for_sync(std::uint64_t index, void* user);

  Keyval& inner_;
  const ReplicatedOptions options_;
  bool leading_ = false;
  bool broken_ = false;
  bool short_of_space_ = false;
  bool lacks_copies_ = false;
  bool committing_ = false;       // inside commit(): what is decided now is to be logged
  std::uint64_t decided_at_ = 0;  // the entry of the commit in hand; 0: it was not decided
  std::uint64_t epoch_ = 0;
  LogPosition last_;
  std::uint64_t first_ = 1;
  std::uint64_t synced_ = 0;
  UniqueFunction<void(LogPosition, std::shared_ptr<const Bytes>)> on_entry_;
  UniqueFunction<void()> on_sync_wanted_;
  std::unordered_map<void*, Commit> in_flight_;
  std::multimap<std::uint64_t, void*> waiting_;  // for a sync up to the index
  std::deque<KeyvalCompletion> ready_;
};

/// The record of GroupKey::kPosition.
struct PositionRecord {
  LogPosition last;
  std::uint64_t first = 1;
};
Bytes encode_position(const PositionRecord& record);
Result<PositionRecord> decode_position(ByteView bytes);

}  // namespace spate::trove
