// SPDX-License-Identifier: Apache-2.0
// Forwarder: sends a primary's changes to the other members of its group (docs/availability.md, "Mirrored data").
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "group/timing.h"
#include "job/gate.h"
#include "server/io/mirror/copy_pace.h"
#include "server/io/mirror/mirror_group.h"
#include "server/io/mirror/peers.h"
#include "server/io/parts.h"
#include "wire/mirror_forward_messages.h"

namespace spate::io {

/// The functions of Mirrors that its parts call.
class MirrorHost {
 public:
  virtual ~MirrorHost() = default;
  virtual Parts& parts() = 0;
  virtual MirrorPeers& peers() = 0;
  virtual const group::Timing& timing() const = 0;
  virtual CopyPace& pace() = 0;

  /// Null if the group is not known here.
  virtual MirrorGroup* find(TargetId group) = 0;
  /// Takes over a record if it is newer than what is known, and has this member accept it later. Returns the group;
  /// null if this server keeps none of its members, or if Mirrors has not been started.
  virtual MirrorGroup* learn(const DataGroup& record) = 0;
  /// Ends when this member accepts the newest record that it knows, or cannot.
  virtual job::Task<Result<void>> accept(MirrorGroup& group) = 0;
  /// Whether no other member can have taken over a group in which this one serves alone. Nobody else knows when such a
  /// member stands still, but an operator may have taken it for lost then (`spate server lost`).
  virtual bool is_awake() const = 0;
  /// Whether the process is about to end.
  virtual bool is_leaving() const = 0;

  /// A change of a group's record: new states of some members, and the new primary (0: it stays).
  struct RecordChange {
    std::vector<GroupMember> members;
    TargetId primary;
    TargetId replaced;  // an absent member, whose place `replacement` takes; 0: none
    TargetId replacement;
    bool renew = false;  // the epoch rises also if nothing else changes
    bool once = false;   // the meta server is asked once
  };
  /// Asks the meta server for this change, and repeats the request unless `once` is set, until the record is as wanted,
  /// this member may not make the change, or `stop` fires.
  virtual job::Task<void> change_record(MirrorGroup& group, RecordChange what, job::StopToken stop) = 0;
  /// Reads the cluster map again, for peers(). After a failure the map is the one that was known.
  virtual job::Task<void> fetch_map() = 0;
  /// A member knows a later record, so the record should be read again.
  virtual void contradicted() = 0;
};

/// Another member, from its joining to its absence.
struct MirrorFollower {
  MirrorFollower(TargetId its_target, MonoTime now)
      : target(its_target), server(server_of(its_target)), heard(now), absent_since(now) {}
  const TargetId target;
  const ServerId server;
  MonoTime acknowledged{Duration(-1)};  // when the newest acknowledged beacon was sent; negative: none was
  MonoTime heard;                       // when it answered last, or when its time to answer began
  MonoTime absent_since;                // when it ceased to make progress, or when this term began
  MonoTime joining_since;               // joining: when it began to
  MonoTime replaced_from;               // nobody is asked to take its place before this
  Duration return_pause{0};             // after its last return that failed
  std::uint64_t accepted = 0;
  bool answers = false;  // it has answered since it became absent
  bool fresh = false;    // it must return before it may serve
  bool lacks_all = false;
  bool yields = false;    // it knows that this term has begun, so it does not lead
  bool goes = false;      // its process is about to end
  bool follows = false;   // joining: it receives all changes
  bool failed = false;    // joining: it has missed a change, so it begins again
  bool returns = false;   // a task is making it return
  bool leaves = false;    // a task is making it absent
  bool no_room = false;   // no other server has room for its copy
  bool promoted = false;  // it is about to serve: changes wait for it
  MemberState state = MemberState::kAbsent;
  MonoTime returns_from;        // its return does not begin before this
  job::StopSource gone;         // fires when it becomes absent: nobody waits for it then
  std::set<DatafileId> sparse;  // returning: datafiles of which it has got holes
};
using MirrorFollowerPtr = std::shared_ptr<MirrorFollower>;
using MirrorFollowers = std::map<TargetId, MirrorFollowerPtr>;

/// Whether a member that answers so keeps its place: it is not at fault, and the change fails.
bool is_refusal(Errc status);

/// The fate of a serving member that refuses a change: the change fails, or the member becomes absent. kFailsAlways:
/// the change fails also if the member is returning, which otherwise has then failed to return.
enum class Refusal : std::uint8_t { kFails, kLeavesOut, kFailsAlways };

/// Numbers the changes of one term and sends them to the other members. A member that does not answer, or cannot make
/// a change, becomes absent.
///
/// It lives as long as its term. All of its tasks end early when `stopping` fires. One executor; pinned. The arguments
/// of the constructor must outlive the object.
class Forwarder {
 public:
  /// `term`: the number of the term. `gate` holds what is under way.
  Forwarder(MirrorHost& host, MirrorGroup& group, std::uint64_t term, job::StopSource& stopping, job::Gate& gate);
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  /// A change's number, while it is under way.
  class Running {
   public:
    explicit Running(Forwarder& forwarder)
        : forwarder_(forwarder), pass_(forwarder.gate_), number_(forwarder.next_number_++) {
      forwarder_.running_.insert(number_);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() {
      forwarder_.running_.erase(number_);
      forwarder_.one_ended_.set();
      forwarder_.one_ended_.reset();
    }
    std::uint64_t number() const { return number_; }

   private:
    Forwarder& forwarder_;
    const job::Gate::Pass pass_;
    const std::uint64_t number_;
  };

  MirrorFollowers& followers() { return followers_; }
  const MirrorFollowers& followers() const { return followers_; }
  /// All changes with lower numbers have ended.
  std::uint64_t done_below() const { return running_.empty() ? next_number_ : *running_.begin(); }
  /// Waits until all changes that have a number now have ended. Fails if the term ends.
  job::Task<Result<void>> wait_until_done();
  /// The window of the change log that changes are noted in now.
  std::uint64_t window() const { return window_; }
  /// Begins the next window. Returns the one that was the last until now.
  std::uint64_t next_window() { return window_++; }

  /// A request without a number and an epoch: the caller sets the former, tell() the latter.
  wire::MirrorForwardRequest message(DatafileId datafile, wire::MirrorChange change) const;
  /// Sends the change to all other members. Fails with the refusal of a member.
  job::Task<Result<void>> tell(const wire::MirrorForwardRequest& request, ByteView data, TraceId trace = {});
  /// Sends a part of this member's copy to all other members, or to `only` if it is not null. A member that refuses it
  /// has another copy, and becomes absent.
  job::Task<Result<void>> tell_copy(const wire::MirrorForwardRequest& request, ByteView data, MirrorFollowerPtr only,
                                    Refusal refusal = Refusal::kLeavesOut);
  /// Whether a change waits for this member.
  bool counts(const MirrorFollower& follower) const;
  /// Gives a member up: a joining one has failed, any other is left out. Ends when the member is absent, or when this
  /// process is no longer the primary.
  job::Task<void> evict(MirrorFollowerPtr follower, const char* why);
  /// Makes the member absent.
  job::Task<void> leave_out(MirrorFollowerPtr follower, const char* why);

 private:
  /// A change on its way to members.
  struct Message {
    const wire::MirrorForwardRequest& request;
    ByteView data;
    Refusal refusal;
    TraceId trace;
  };
  job::Task<Result<void>> tell_members(Message message, MirrorFollowerPtr only);
  job::Task<Result<void>> tell_one(MirrorFollowerPtr follower, Message message);

  Parts& parts_;
  MirrorHost& host_;
  MirrorGroup& group_;
  const std::uint64_t term_;
  job::StopSource& stopping_;
  job::Gate& gate_;
  MirrorFollowers followers_;
  std::uint64_t next_number_ = 1;
  std::set<std::uint64_t> running_;
  job::Event one_ended_;
  std::uint64_t window_;
};

}  // namespace spate::io
