// SPDX-License-Identifier: Apache-2.0
// MirrorGroup: what this process knows of a group that one of its targets belongs to.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "job/semaphore.h"
#include "job/stop.h"
#include "server/io/mirror/change_log.h"
#include "server/io/mirror/taken_changes.h"
#include "server/io/target.h"

namespace spate::io {

class PrimaryTerm;

/// The pause after a removal of old copies that has failed. Each failure doubles it.
class RemovalPause {
 public:
  bool is_over(MonoTime now) const { return now >= until_; }
  void failed(MonoTime now) {
    pause_ = std::clamp(pause_ * 2, kShortest, kLongest);
    until_ = now + pause_;
  }
  void succeeded() {
    pause_ = Duration(0);
    until_ = MonoTime();
  }

 private:
  static constexpr Duration kShortest = std::chrono::seconds(1);
  static constexpr Duration kLongest = std::chrono::seconds(30);
  Duration pause_{0};
  MonoTime until_;
};

/// One executor; pinned. Only Mirrors and its parts change it.
struct MirrorGroup {
  MirrorGroup(job::Executor& executor, job::KeyvalContext& keyval, Target& its_target, TargetId its_id)
      : id(its_id),
        target(its_target),
        self(its_target.description.id),
        known_since(executor.now()),
        heard(executor.now()),
        acknowledged(executor.now()),
        taken(executor),
        log(keyval, its_id),
        changed(executor),
        accept_turn(executor, 1),
        alter_turn(executor, 1) {}
  MirrorGroup(const MirrorGroup&) = delete;
  MirrorGroup& operator=(const MirrorGroup&) = delete;

  const TargetId id;
  /// They change only if another target of this server takes a place in the group. Nothing of the group runs then.
  std::reference_wrapper<Target> target;
  TargetId self;  // the target's number
  const MonoTime known_since;

  /// The newest record that this process has been told. It has no members while there is none.
  DataGroup record;
  /// The epoch that this member accepts. It refuses everything that belongs to an earlier epoch. 0: none yet.
  std::uint64_t accepted = 0;
  std::uint64_t history = 0;  // of the record of that epoch
  /// An earlier process has accepted an epoch, and this process has not been taken into the group since.
  bool fresh = false;
  /// This member lacks the group's data, or a part of it.
  bool lacks_all = false;
  /// This server has removed the copies that it held before it began to join, or before it was replaced.
  bool emptied = false;
  /// An earlier process was being given what it lacked. This member must first become absent, and then join again.
  bool half_joined = false;
  /// The machine has been booted since that earlier process.
  bool rebooted = false;
  /// This member has asked to become the primary. Until the outcome is known, it acknowledges nothing of this epoch.
  bool accusing = false;
  job::StopSource* asking = nullptr;  // ends the question when a later record is learnt; null: no question is under way
  std::set<ServerId> fresh_others;    // of a primary that is fresh: serving members that are fresh, too
  bool accepting = false;             // about to accept a later epoch; until then it takes no changes
  RemovalPause removal;               // of its old copies
  MonoTime heard;                     // when the primary was last heard, or when its time to be heard began
  MonoTime acknowledged;              // when this member last promised to let the primary lead for a while
  std::uint64_t term_taken = 0;       // the primary's term to which `taken` belongs
  TakenChanges taken;
  std::vector<ChangedRegion> doubtful;  // of the term before `term_taken`: others may not have these changes
  ChangeLog log;
  /// Set while this member is the primary, or is about to be.
  std::shared_ptr<PrimaryTerm> term;
  std::uint64_t unread_term = 0;  // the term in which this member could not read its copy, so that another one leads
  MonoTime unread_at;             // when that was
  job::Event changed;             // set and reset when the record or the accepted epoch has moved
  job::Semaphore accept_turn;
  job::Semaphore alter_turn;
  bool hands_over = false;  // a task has another member lead
  bool minded = false;      // a task looks after it now

  MemberState state_of(TargetId member) const {
    const GroupMember* const found = record.find(member);
    return found == nullptr ? MemberState::kAbsent : found->state;
  }
  bool is_primary() const { return record.primary == self; }
  /// Whether another target has taken this one's place.
  bool is_replaced() const { return record.find(self) == nullptr; }
  bool serves() const { return record.serves(self); }
  /// Whether an operator has let an older copy lead, so that the others have no notes of what this member has got
  /// since.
  bool is_given_up(const DataGroup& by) const { return accepted > 0 && by.history() != history && !by.serves(self); }
  /// Whether this server still has copies that must go: others have taken its place, or it is to receive everything.
  bool has_old_copies() const {
    if (emptied) return false;
    return is_replaced() || (lacks_all && state_of(self) == MemberState::kJoining && accepted < record.epoch);
  }
  void pulse() {
    changed.set();
    changed.reset();
  }
};

using MirrorGroups = std::map<TargetId, std::unique_ptr<MirrorGroup>>;

}  // namespace spate::io
