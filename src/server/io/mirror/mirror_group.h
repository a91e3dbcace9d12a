// SPDX-License-Identifier: Apache-2.0
// MirrorGroup: what this process knows of a group of which one of its targets is a member.
#pragma once

#include <memory>

#include "job/semaphore.h"
#include "server/io/mirror/change_log.h"
#include "server/io/mirror/taken_changes.h"
#include "server/io/target.h"

namespace spate::io {

class Reign;

/// One executor; pinned. Only the class Mirrors and what it is made of change it.
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
        obey_turn(executor, 1),
        alter_turn(executor, 1) {}
  MirrorGroup(const MirrorGroup&) = delete;
  MirrorGroup& operator=(const MirrorGroup&) = delete;

  const TargetId id;
  Target& target;
  const TargetId self;  // the target's number
  const MonoTime known_since;

  /// The newest record that anybody has told. Without members while there is none.
  DataGroup record;
  /// The epoch that this member obeys; what belongs to an earlier one is refused. 0: none yet.
  std::uint64_t obeyed = 0;
  /// A process before this one has obeyed an epoch, and this one has not been taken in since.
  bool fresh = false;
  /// This member has not what the group has.
  bool lacks_all = false;
  /// Since that process the machine was started anew.
  bool rebooted = false;
  /// It has asked to become the primary, and the outcome is not known: nothing of the present epoch is acknowledged.
  bool accusing = false;
  bool obeying = false;           // a later epoch; until then nothing is taken
  MonoTime heard;                 // a beacon of the primary
  MonoTime acknowledged;          // and this one promised to let it be the primary for a while
  std::uint64_t reign_taken = 0;  // the primary's reign to which `taken` belongs
  TakenChanges taken;
  std::vector<ChangedRegion> doubtful;  // of the reign before that: others may not have these changes
  ChangeLog log;
  /// Set while this member is the primary, or is about to be.
  std::shared_ptr<Reign> reign;
  job::Event changed;  // set and reset when the record or the obeyed epoch has moved
  job::Semaphore obey_turn;
  job::Semaphore alter_turn;
  bool minded = false;  // a task looks after it now

  MemberState state_of(TargetId member) const {
    const GroupMember* const found = record.find(member);
    return found == nullptr ? MemberState::kAbsent : found->state;
  }
  bool is_primary() const { return record.primary == self; }
  bool serves() const { return record.serves(self); }
  void pulse() {
    changed.set();
    changed.reset();
  }
};

}  // namespace spate::io
