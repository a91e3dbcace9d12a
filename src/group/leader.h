// SPDX-License-Identifier: Apache-2.0
// Leader: the work of a primary in one epoch.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "group/follower.h"
#include "group/link.h"
#include "group/local_log.h"
#include "group/recent_entries.h"
#include "group/timing.h"
#include "job/event.h"
#include "job/gate.h"

namespace spate::group {

/// The interface to the member that a leader is part of.
class Leadership {
 public:
  virtual ~Leadership() = default;
  /// The record as this member knows it, and its revision.
  virtual const GroupRecord& record() const = 0;
  virtual std::uint64_t revision() const = 0;
  /// Tries to make `wanted` the record. Ends when it is known whether the record has changed; if so, it has been read
  /// again.
  virtual job::Task<void> alter(GroupRecord wanted, job::StopToken stop) = 0;
  /// Until then no other member answers requests if this one serves alone. Nobody else knows when such a member stands
  /// still, but an operator may have taken it for lost then (`spate coord restore --without`).
  virtual MonoTime awake_until() const = 0;
  /// A member accepts a later epoch, so the record should be read again.
  virtual void contradicted() = 0;
  /// The store has failed and cannot continue.
  virtual void failed(Error why) = 0;
};

struct LeaderOptions {
  std::uint32_t group = 0;
  ServerId self;
  Timing timing;
};

/// The work of a primary in one epoch: it sends beacons and entries to the other members, learns what they have applied
/// and synced, and decides which of them serve.
///
/// Life cycle: construct (the keyval leads already) -> start() -> halt(), when the record names another primary ->
/// stop() awaited -> destroyed. From halt() on it sends nothing new, and replicated() and leased_until() do not grow.
/// stop() halts it and waits for its tasks; a message that is under way is given up. The destructor takes its callbacks
/// out of the keyval.
///
/// One executor. The leadership (the member), the link, the store and the log outlive it.
class Leader {
 public:
  Leader(LeaderOptions options, Leadership& leadership, Link& link, job::KeyvalContext& store,
         trove::ReplicatedKeyval& keyval, LocalLog& log);
  ~Leader();
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  void start();
  /// Ends all its work as a leader, for example because the record names another primary.
  void halt();
  job::Task<void> stop();

  /// The record has changed: updates which members are required.
  void record_changed();
  /// All serving members have the entries up to this index.
  std::uint64_t replicated() const;
  /// Whether as many members as the record's `min` have the entries up to this index, this one among them. Members that
  /// do not serve count, too, if they receive all entries.
  bool has_copies(std::uint64_t index) const;
  /// Until then no other member answers requests.
  MonoTime leased_until() const;
  /// Whether a serving member has not answered for so long that another one may lead by now, or that the record cannot
  /// be changed: clients should look for the one that leads.
  bool out_of_touch() const;
  /// Set and reset whenever replicated() or leased_until() may have grown, and now and then while out_of_touch().
  job::Event& progress() { return progress_; }
  void pulse();
  /// A serving member that has everything, and can be the next primary; none: ServerId().
  ServerId successor() const;

 private:
  /// Entries to send, and the position of the entry before them.
  struct Batch {
    trove::LogPosition before;
    std::vector<EntryRef> entries;
  };

  void note_entry(trove::LogPosition at, EntryRef entry);
  std::shared_ptr<Message> message(MessageKind kind) const;
  /// Takes over what every answer reports, whatever the request was. False: the member does not accept this leader.
  bool note(Follower& follower, const Answer& answer);

  job::Task<void> beat(Follower& follower);
  job::Task<void> beat_once(Follower& follower);
  job::Task<void> feed(Follower& follower);
  job::Task<Result<void>> probe(Follower& follower);
  job::Task<Result<void>> send_entries(Follower& follower);
  struct Copy;
  job::Task<Result<void>> copy(Follower& follower);
  job::Task<Result<void>> copy_pages(Follower& follower, Copy& copy, job::Transaction& snapshot);
  job::Task<Result<void>> send_copy(Follower& follower, Copy& copy, std::shared_ptr<Message> message);
  job::Task<Result<Answer>> ask(Follower& follower, std::shared_ptr<const Message> message, Duration timeout);
  job::Task<Result<std::optional<std::uint64_t>>> epoch_of(std::uint64_t index);
  job::Task<Result<Batch>> collect(std::uint64_t next);

  job::Task<void> mind_members();
  job::Task<void> evict(Follower& follower);
  job::Task<void> promote(Follower& follower);
  /// Whether the run `process` has synced its log up to `needed`. Takes at most about Timing::lease + Timing::message.
  job::Task<bool> has_synced(Follower& follower, std::uint64_t process, std::uint64_t needed);
  void note_space();
  bool must_go(const Follower& follower) const;
  bool may_serve(const Follower& follower) const;

  job::Task<void> sync_when_wanted();
  job::Task<Result<void>> sync_here();
  job::Task<Result<void>> sync_at(Follower& follower, std::uint64_t target);

  const LeaderOptions options_;
  Leadership& leadership_;
  Link& link_;
  job::KeyvalContext& store_;
  job::Executor& executor_;
  trove::ReplicatedKeyval& keyval_;
  LocalLog& log_;
  std::deque<Follower> followers_;  // pinned
  RecentEntries recent_;
  std::uint64_t copies_ = 0;
  job::Gate gate_;
  job::StopSource stopping_;
  job::Event progress_;
  job::Event new_entry_;
  job::Event sync_wanted_;
};

}  // namespace spate::group
