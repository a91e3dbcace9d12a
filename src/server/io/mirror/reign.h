// SPDX-License-Identifier: Apache-2.0
// Reign: the work of one process as the primary of a group (docs/availability.md, "Mirrored data").
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "flow/scheduler.h"
#include "group/timing.h"
#include "job/gate.h"
#include "server/io/mirror/copy_pace.h"
#include "server/io/mirror/mirror_group.h"
#include "server/io/mirror/peers.h"
#include "server/io/mirror/range_locks.h"
#include "server/io/parts.h"
#include "wire/mirror_forward_messages.h"

namespace spate::io {

/// The interface to the server that a reign is part of.
class MirrorHost {
 public:
  virtual ~MirrorHost() = default;
  virtual Parts& parts() = 0;
  virtual MirrorPeers& peers() = 0;
  virtual const group::Timing& timing() const = 0;
  virtual CopyPace& pace() = 0;

  /// A change of a group's record: new states of some members, and the new primary (0: it stays).
  struct Alteration {
    std::vector<GroupMember> members;
    TargetId primary;
    bool renew = false;  // the epoch rises also if nothing else changes
  };
  /// Asks the meta server for it, again and again. Ends when the record is as wanted, when this member may not make it
  /// so, or when `stop` fires.
  virtual job::Task<void> alter(MirrorGroup& group, Alteration what, job::StopToken stop) = 0;
  /// A member knows a later record, so the record should be read again.
  virtual void contradicted() = 0;
};

/// Another member, from its joining to its absence.
struct MirrorFollower {
  MirrorFollower(TargetId its_target, MonoTime now) : target(its_target), server(server_of(its_target)), heard(now) {}
  const TargetId target;
  const ServerId server;
  MonoTime acknowledged{Duration(-1)};  // when the newest acknowledged beacon was sent; negative: none was
  MonoTime heard;                       // when it answered last, or when its time to answer began
  std::uint64_t obeyed = 0;
  bool answers = false;  // it has answered since it became absent
  bool fresh = false;    // it must return before it may serve
  bool lacks_all = false;
  bool yields = false;    // it knows that this reign has begun, so it does not lead
  bool goes = false;      // its process is about to end
  bool follows = false;   // joining: it receives all changes
  bool failed = false;    // joining: it has missed a change, so it begins again
  bool returns = false;   // a task is making it return
  bool leaves = false;    // a task is making it absent
  bool promoted = false;  // it is about to serve: changes wait for it
  MemberState state = MemberState::kAbsent;
  MonoTime returns_from;  // its return does not begin before this
  job::StopSource gone;   // fires when it becomes absent: nobody waits for it then
};
using MirrorFollowerPtr = std::shared_ptr<MirrorFollower>;

/// The parts of a change that other members need, and that the storage operation does not have.
struct MirrorExtras {
  std::uint64_t truncate_generation = 0;
  WallTime tombstone_until{};  // of a removal; 0: it leaves no tombstone
};

/// One process's time as the primary of one group. It orders all changes of the group's datafiles, sends them to the
/// other members, and brings returning members up to date.
///
/// Life cycle: construct, when this member's epoch as the primary is in the record -> open() awaited: other members
/// obey, and their copies are made equal -> leads() while all serving members have acknowledged a recent beacon; it can
/// become false and true again -> end() awaited, when another member is the primary or the server stops -> destroyed
/// with the last request that uses it (shared_ptr). end() waits for all changes under way and all tasks of this reign;
/// changes that are stopped by it fail with kNotPrimary, and may have had their effect on some members. The next reign
/// makes the copies equal.
///
/// Requests: a request that found this reign calls check() before it answers, since another member may have become the
/// primary meanwhile. One executor; pinned. The group and the host outlive it.
class Reign {
 public:
  Reign(MirrorHost& host, MirrorGroup& group, std::uint64_t number);
  Reign(const Reign&) = delete;
  Reign& operator=(const Reign&) = delete;

  /// Makes all members obey, and makes their copies equal where they may differ. Ends without effect if the reign ends.
  /// `doubtful`: changes of the reign before that this member has and others may not have. No answer is given before
  /// `serves_from`, unless all others know of this reign.
  job::Task<void> open(std::vector<ChangedRegion> doubtful, MonoTime serves_from);
  /// Ends all changes of this reign and waits for them, because this member is no longer the primary.
  job::Task<void> end();
  /// The same without waiting for the changes.
  void halt();
  /// Has another member lead, or serves alone if all others go, too. Ends when the record is so.
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
  /// while one of them is on the way to the others, this member may write an earlier or a later one. That shows nobody
  /// what may be lost: each byte is written here, where it is read, when every serving member has that byte. The own
  /// write must not begin earlier, under whatever lock: a read by sendfile leaves the page cache after its answer, so
  /// no lock could hold it back. Once others have been told, it is carried out to the end, whatever `stop` says. The
  /// memory behind the request's spans outlives the task.
  ///
  /// Failure: kNotPrimary if too few members serve, or if this member does not lead or ceases to lead meanwhile; in the
  /// last case the change may have had its effect on some members, and the next reign makes the copies equal. After any
  /// other failure the serving members' copies are equal again, with the change or without it, unless this member's own
  /// storage fails (kIoError). A member that does not answer, or cannot make the change, becomes absent, and the change
  /// goes on without it.
  job::Task<Result<trove::BytestreamCompletion>> change(trove::BytestreamRequest request, MirrorExtras extras,
                                                        flow::Asker asker, job::StopToken stop);
  /// Syncs the datafile on all other members. `trace`: of the request that this is part of; 0: none.
  job::Task<Result<void>> sync_others(DatafileId datafile, TraceId trace);

  // For Mirrors.
  void record_changed();
  const std::map<TargetId, MirrorFollowerPtr>& followers() const { return followers_; }
  std::uint64_t done_below() const { return running_.empty() ? next_number_ : *running_.begin(); }
  job::Task<void> evict(MirrorFollowerPtr follower, const char* why);
  job::Task<void> leave_out(MirrorFollowerPtr follower, const char* why);
  job::Task<void> let_return(MirrorFollowerPtr follower);
  /// Makes changes durable on all members, and forgets their notes.
  job::Task<void> close_window();
  job::StopToken token() { return job::StopToken(stopping_); }
  job::Gate& gate() { return gate_; }
  std::uint64_t to_copy() const { return to_copy_; }

 private:
  /// A change's number, while it is under way.
  class Running {
   public:
    explicit Running(Reign& reign) : reign_(reign), holder_(reign.gate_), number_(reign.next_number_++) {
      reign_.running_.insert(number_);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() {
      reign_.running_.erase(number_);
      reign_.one_ended_.set();
      reign_.one_ended_.reset();
    }
    std::uint64_t number() const { return number_; }

   private:
    Reign& reign_;
    const job::Gate::Holder holder_;
    const std::uint64_t number_;
  };

  wire::MirrorForwardRequest message(DatafileId datafile, wire::MirrorChange change) const;
  wire::MirrorForwardRequest message_of(const trove::BytestreamRequest& request, const MirrorExtras& extras);
  job::Task<Result<void>> note(const trove::BytestreamRequest& request);
  job::Task<Result<trove::BytestreamCompletion>> change_in_order(const trove::BytestreamRequest& request,
                                                                 const MirrorExtras& extras, flow::Asker asker);
  /// Sends the change to all other members, or to `only` if it is not null. Fails with the failure of a member.
  job::Task<Result<void>> tell(const wire::MirrorForwardRequest& request, ByteView data, MirrorFollowerPtr only,
                               TraceId trace = {});
  job::Task<Result<void>> tell_one(MirrorFollowerPtr follower, const wire::MirrorForwardRequest& request, ByteView data,
                                   TraceId trace);
  bool counts(const MirrorFollower& follower) const;
  job::Task<void> make_obey(MirrorFollowerPtr follower);
  job::Task<void> tell_reign(MirrorFollowerPtr follower);
  job::Task<void> wait_to_serve(MonoTime serves_from);
  job::Task<Result<wire::MirrorObeyReply>> ask_to_obey(MirrorFollower& follower);
  /// Makes the others' datafile equal to this one's where a change has failed.
  job::Task<Result<void>> mend(DatafileId datafile, RangeLocks::Range range);
  job::Task<void> step_down(Errc why);
  // The return of a member (reign_return.cc).
  using Regions = std::map<DatafileId, std::vector<ChangedRegion>>;
  job::Task<Result<void>> catch_up(MirrorFollowerPtr follower);
  job::Task<Result<void>> tell_fences(MirrorFollower& follower);
  job::Task<Result<void>> collect_records(MirrorFollower& follower, Regions& regions);
  job::Task<Result<void>> collect_all(Regions& regions);
  job::Task<Result<void>> copy_all(MirrorFollowerPtr follower, const Regions& regions);
  job::Task<Result<void>> copy_returned(MirrorFollowerPtr follower, DatafileId datafile,
                                        const std::vector<ChangedRegion>& regions);
  job::Task<Result<void>> copy_pieces(DatafileId datafile, std::vector<Extent> pieces, MirrorFollowerPtr only);
  void note_copied(std::uint64_t regions) { to_copy_ -= std::min(to_copy_, regions); }
  job::Task<Result<void>> copy_datafile(DatafileId datafile, const std::vector<ChangedRegion>& regions,
                                        MirrorFollowerPtr only);
  job::Task<Result<void>> copy_from(DatafileId datafile, std::uint64_t offset, MirrorFollowerPtr only);
  job::Task<Result<void>> copy_hole(DatafileId datafile, std::uint64_t begin, std::uint64_t end,
                                    MirrorFollowerPtr only);
  job::Task<Result<void>> copy_range(DatafileId datafile, Extent range, MirrorFollowerPtr only);
  job::Task<Result<void>> settle(DatafileId datafile, MirrorFollowerPtr only);

  job::Task<Result<void>> window_of(MirrorFollowerPtr follower, std::uint64_t window, bool forget);

  Parts& parts_;
  MirrorHost& host_;
  MirrorGroup& group_;
  const std::uint64_t number_;
  RangeLocks locks_;
  std::map<TargetId, MirrorFollowerPtr> followers_;
  std::uint64_t next_number_ = 1;
  std::set<std::uint64_t> running_;
  job::Event one_ended_;
  std::uint64_t window_ = 1;
  std::uint64_t to_copy_ = 0;
  bool open_ = false;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::io
