// SPDX-License-Identifier: Apache-2.0
// PrimaryTerm: the work of one process as the primary of a group (docs/availability.md, "Mirrored data").
#pragma once

#include <algorithm>
#include <vector>

#include "flow/scheduler.h"
#include "server/io/mirror/copier.h"
#include "server/io/mirror/forwarder.h"
#include "server/io/mirror/member_acceptance.h"
#include "server/io/mirror/member_return.h"
#include "server/io/mirror/range_locks.h"
#include "wire/check_messages.h"

namespace spate::io {

/// The parts of a change that other members need, and that the storage operation does not have.
struct MirrorExtras {
  std::uint64_t truncate_generation = 0;
  WallTime tombstone_until{};  // of a removal; 0: it leaves no tombstone
};

/// One process's time as the primary of one group. It orders all changes of the group's datafiles, sends them to the
/// other members, and brings returning members up to date.
///
/// Life cycle: construct, when this member's epoch as the primary is in the record -> open() awaited: other members
/// accept the record, and their copies are made equal -> leads() while all serving members have acknowledged a recent
/// beacon; it can become false and true again -> end() awaited, when another member is the primary or the server stops
/// -> destroyed with the last request that uses it (shared_ptr). end() waits for all changes under way and all tasks of
/// this term; changes that are stopped by it fail with kNotPrimary, and may have had their effect on some members. The
/// next term makes the copies equal.
///
/// Requests: a request that found this term calls check() before it answers, since another member may have become the
/// primary meanwhile. One executor; pinned. The group and the host outlive it.
class PrimaryTerm {
 public:
  PrimaryTerm(MirrorHost& host, MirrorGroup& group, std::uint64_t number);
  PrimaryTerm(const PrimaryTerm&) = delete;
  PrimaryTerm& operator=(const PrimaryTerm&) = delete;

  /// Makes all members accept the record, and makes their copies equal where they may differ. Ends without effect if
  /// the term ends. `doubtful`: changes of the previous term that this member has and others may not have. No answer is
  /// given before `serves_from`, unless all others know of this term.
  job::Task<void> open(std::vector<ChangedRegion> doubtful, MonoTime serves_from);
  /// Ends all changes of this term and waits for them, because this member is no longer the primary.
  job::Task<void> end();
  /// As end(), but does not wait for the changes.
  void halt();
  /// Makes another member the primary, or serves alone if all others are about to end, too. Ends when the record says
  /// so.
  job::Task<void> hand_over();

  Target& target() const { return group_.target; }
  MirrorGroup& group() const { return group_; }
  std::uint64_t number() const { return number_; }
  /// Whether it leads, and no other member can lead now.
  bool leads() const;
  bool is_open() const { return open_; }
  /// kNotPrimary unless leads().
  Result<void> check() const;

  /// Carries out a change on all members, this one last: `request` is the operation on this one's datafile. Changes
  /// that overlap run one after another, others at the same time. The messages of one large write are such changes, so
  /// while one of them is on the way to the others, this member may write an earlier or a later one. No client
  /// sees a byte that may be lost: clients read this member's copy, and this member writes a byte only when every
  /// serving member has it. No lock would allow an earlier write here: a read by sendfile leaves the page cache after
  /// its answer, when it no longer holds a lock. Once other members have received the change, it is carried out to the
  /// end, even if `stop` fires. The memory behind the request's spans outlives the task.
  ///
  /// Failure: kNotPrimary if this member does not lead or ceases to lead meanwhile; in the last case the change may
  /// have had its effect on some members, and the next term makes the copies equal. kNotPrimary with another sentence,
  /// too, if fewer members serve than the record's `min`, or have it when the change is about to be answered. After any
  /// other failure the serving members' copies are equal again, with the change or without it, unless this member's own
  /// storage fails (kIoError). A member that does not answer, or cannot make the change, becomes absent, and the change
  /// goes on without it.
  job::Task<Result<trove::BytestreamCompletion>> change(trove::BytestreamRequest request, MirrorExtras extras,
                                                        flow::Asker asker, job::StopToken stop);
  /// This member's own copy could not be read. Makes another member the primary, which has the same bytes, and returns
  /// kNotPrimary then. Otherwise returns `why`: there is no other member, or this one has done the same a short time
  /// ago, so that no copy can be read.
  job::Task<Error> read_failed(Errc why);
  /// Syncs the datafile on all other members, and makes this member's notes durable. The datafile itself, on this
  /// member, is left to the caller. Fails as change() does if too few members serve. `trace`: of the request that this
  /// is part of; 0: none.
  job::Task<Result<void>> sync_mirrors(DatafileId datafile, TraceId trace);

  /// Has one member receive its copies of some datafiles anew, or makes another member the primary
  /// (wire::CopyRenewRequest). Returns the epoch of the record before. `stop` ends it until the record is changed.
  job::Task<Result<std::uint64_t>> renew(wire::CopyRenewRequest request, job::StopToken stop);

  // For Mirrors.
  void record_changed();
  Forwarder& forwarder() { return forwarder_; }
  const Forwarder& forwarder() const { return forwarder_; }
  /// See MemberReturn::run().
  job::Task<void> let_return(MirrorFollowerPtr follower) { return returns_.run(std::move(follower)); }
  /// Makes changes durable on all members, and forgets their notes.
  job::Task<void> close_window();
  job::StopToken token() { return job::StopToken(stopping_); }
  job::Gate& gate() { return gate_; }
  std::uint64_t to_copy() const { return copier_.left(); }
  /// Whether no other server has room for the copy of a member that stays away.
  bool lacks_room() const {
    return std::ranges::any_of(forwarder_.followers(), [](const auto& entry) {
      return entry.second->no_room && entry.second->state == MemberState::kAbsent;
    });
  }

 private:
  wire::MirrorForwardRequest message_of(const trove::BytestreamRequest& request, const MirrorExtras& extras);
  job::Task<Result<void>> note(const trove::BytestreamRequest& request);
  /// Makes the others' datafiles equal to this one's in these regions. If this member cannot read its own, another one
  /// becomes the primary.
  job::Task<void> make_equal(const std::vector<ChangedRegion>& doubtful);
  /// Makes the others' datafile equal to this one's where a change has failed.
  job::Task<Result<void>> mend(DatafileId datafile, RangeLocks::Range range);
  job::Task<void> step_down(Errc why);
  job::Task<void> make_primary(TargetId other);
  Result<void> check_renewal(const wire::CopyRenewRequest& request, const job::StopToken& stop) const;
  job::Task<Result<void>> window_of(MirrorFollowerPtr follower, std::uint64_t window, bool forget);

  Parts& parts_;
  MirrorHost& host_;
  MirrorGroup& group_;
  const std::uint64_t number_;
  RangeLocks locks_;
  bool open_ = false;
  job::StopSource stopping_;
  job::Gate gate_;
  Forwarder forwarder_;
  MirrorCopier copier_;
  MemberAcceptance acceptance_;
  MemberReturn returns_;
};

}  // namespace spate::io
