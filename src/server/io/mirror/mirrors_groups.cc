// SPDX-License-Identifier: Apache-2.0
// The life of a group at one member: the member accepts a record, takes over, and leads.
#include <algorithm>

#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/io/mirror/member_changes.h"
#include "server/io/mirror/mirrors.h"

namespace spate::io {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(100);
constexpr Duration kWindow = std::chrono::seconds(10);
// A member whose process has restarted waits longer, so that a member that was there all the time goes first.
constexpr Duration kFreshPrimary = std::chrono::seconds(3);
constexpr Duration kFreshBackup = std::chrono::seconds(5);
constexpr Duration kAfterReboot = std::chrono::seconds(7);

/// A restarted process does not continue as a serving member: others may have left it out, and it does not
/// know which part of a change it has seen. The primary takes it in again as a returning member.
bool may_accept(const MirrorGroup& group, const DataGroup& record) {
  if (!group.fresh) return true;
  const GroupMember* const member = record.find(group.self);
  return member == nullptr || member->state == MemberState::kAbsent ||
         (member->state == MemberState::kJoining && !group.half_joined);
}

/// Whether this member's copies are of no use any more: it is no member, and the group is whole without it.
bool must_drop(const MirrorGroup& group, MonoTime now) {
  return group.is_replaced() && !group.emptied && group.accepted == group.record.epoch && group.record.is_whole() &&
         group.removal.is_over(now);
}

/// Whether old copies must go before this member accepts the record. The others note no changes for a server that is no
/// member, and may have removed some of these files meanwhile.
bool must_empty(Parts& parts, const MirrorGroup& group, const DataGroup& record) {
  const GroupMember* const member = record.find(group.self);
  if (member != nullptr) return member->state == MemberState::kJoining && group.lacks_all && !group.emptied;
  const bool lacks_all = group.lacks_all || !planted(Defect::kFormerMemberBelieved);
  return lacks_all && own_member(parts, record) != nullptr;
}

/// Whether the record would be accepted but for old copies, whose removal has failed a moment ago.
bool waits_for_removal(Parts& parts, const MirrorGroup& group) {
  return !group.removal.is_over(parts.executor.now()) && must_empty(parts, group, group.record);
}

/// Nothing depends on a member that is joining: changes wait for it no longer, and its return ends.
void give_up(MirrorFollower& follower) {
  follower.failed = true;
  follower.returns = false;
  follower.gone.request_stop();
}

/// No other member that serves has more than the store of this one: there is none, or its process is new, too. (The
/// process alone may be new, while the machine of this one has lost what was not synced.)
bool is_nobody_older(const MirrorGroup& group) {
  if (group.rebooted && group.record.serving() > 1) return false;
  return std::ranges::all_of(group.record.members, [&group](const GroupMember& member) {
    if (member.target == group.self || member.state != MemberState::kServing) return true;
    return group.fresh_others.contains(server_of(member.target));
  });
}

}  // namespace

MirrorGroup* Mirrors::learn(const DataGroup& record) {
  MirrorGroup* const group = find_or_make(record);
  if (group == nullptr || group_records_ == nullptr) return nullptr;
  if (record.epoch > group->record.epoch) {
    group->record = record;
    group->fresh_others.clear();
    group->heard = parts_.executor.now();  // gives the present primary time
    if (group->asking != nullptr) group->asking->request_stop();
    group->pulse();
  }
  if (group->accepted < group->record.epoch && may_accept(*group, group->record) && !waits_for_removal(parts_, *group))
    job::spawn(gate_, accept_later(*group));
  return group;
}

job::Task<void> Mirrors::accept_later(MirrorGroup& group) {
  const auto accepted = co_await accept(group);
  if (!accepted && !stopping_.stopped())
    SPATE_LOG("server/io", warn, "the record of a group is not stored yet group={} error={}", group.id,
              accepted.error());
  if (accepted && group.is_primary() && !group.minded) co_await mind(group);  // clients wait for it
}

job::Task<void> Mirrors::hand_over_one(MirrorGroup& group) {
  const std::shared_ptr<PrimaryTerm> term = group.term;
  if (term == nullptr || !term->is_open()) co_return;
  group.hands_over = true;
  co_await term->hand_over();
  group.hands_over = false;
  if (group.is_primary()) co_return;
  const auto accepted = co_await accept(group);  // its term has ended then
  if (!accepted) co_return;
  wire::MirrorObeyRequest request;
  request.record = group.record;
  rpc::CallOptions options;
  options.deadline = parts_.executor.now() + timing_.message;
  options.priority = wire::Priority::kControl;
  options.stop = stopping_;
  const auto told = co_await peers_->call<wire::MirrorObeyReply>(server_of(request.record.primary),
                                                                 MirrorPeers::Lane::kBeacons, request, options);
  if (!told)
    SPATE_LOG("server/io", info, "the new primary of a group learns of it later group={} error={}", group.id,
              told.error());
}

job::Task<Result<void>> Mirrors::accept(MirrorGroup& group) {
  SPATE_CO_TRY(const auto turn, co_await group.accept_turn.acquire(1, stopping_));
  const DataGroup record = group.record;
  if (group.accepted >= record.epoch) co_return Result<void>();
  if (!may_accept(group, record)) co_return Error(Errc::kTryAgain, "this member has to return first");
  if (waits_for_removal(parts_, group)) co_return Error(Errc::kTryAgain, "old copies cannot be removed yet");
  auto accepted = co_await accept_now(group, record);
  co_return accepted;
}

job::Task<Result<void>> Mirrors::accept_now(MirrorGroup& group, DataGroup record) {
  // Nothing of an earlier epoch begins from here on, and what has begun ends.
  group.accepting = true;
  if (group.term != nullptr && record.primary != group.self) {
    const std::shared_ptr<PrimaryTerm> term = std::move(group.term);
    co_await term->end();
  }
  if (!planted(Defect::kEpochBeforeEnd)) std::ignore = co_await group.taken.quiet().wait();
  const auto placed = co_await take_place(group, record);
  if (!placed) {
    group.accepting = false;
    co_return placed;
  }
  const bool serves = record.serves(group.self);
  const GroupNote note{record, group.lacks_all && !serves, parts_.options.boot};
  job::Transaction transaction = parts_.keyval.begin();
  transaction.put(group_note_key(group.id), encode(note));
  const trove::KeyvalCompletion done = co_await transaction.commit(trove::Durability::kMachine);
  group.accepting = false;
  if (done.status != Errc::kOk) co_return done.status;
  group.accepted = record.epoch;
  group.history = record.history();
  group.lacks_all = note.lacks_all;
  // From here on this process takes part, and not only an earlier one.
  const GroupMember* const member = record.find(group.self);
  if (serves || (member != nullptr && member->state == MemberState::kJoining)) group.fresh = false;
  group.half_joined = false;
  if (group.term != nullptr) group.term->record_changed();
  group.pulse();
  co_return Result<void>();
}

/// Finds this server's target in the record, if the server is still a member. A member that is about to receive
/// everything first removes its old copies, because the others may have removed some of these files meanwhile.
job::Task<Result<void>> Mirrors::take_place(MirrorGroup& group, const DataGroup& record) {
  const GroupMember* const member = record.find(group.self);
  Target* const other = member == nullptr ? own_member(parts_, record) : nullptr;
  if (group.is_given_up(record) && !planted(Defect::kOtherHistoryBelieved)) group.lacks_all = true;
  // The others note no changes for a server that is no member. So its copies may be out of date in any place.
  if (member == nullptr && !planted(Defect::kFormerMemberBelieved)) group.lacks_all = true;
  if (member == nullptr || member->state == MemberState::kServing) group.emptied = false;
  if (must_empty(parts_, group, record)) {
    SPATE_CO_TRY(std::ignore, co_await empty(group));
  }
  if (other != nullptr) {
    group.target = *other;
    group.self = other->description.id;
  }
  co_return Result<void>();
}

/// Removes the copies of this server. After a failure nobody tries again for a while.
job::Task<Result<void>> Mirrors::empty(MirrorGroup& group) {
  auto removed = co_await remove_copies(parts_, group, stopping_);
  group.emptied = removed.has_value();
  if (removed) group.removal.succeeded();
  if (!removed) group.removal.failed(parts_.executor.now());
  co_return removed;
}

/// Frees the space of a copy that the group needs no more. Until the group is whole without it, the copy stays.
job::Task<void> Mirrors::drop_copy(MirrorGroup& group) {
  const auto turn = co_await group.accept_turn.acquire(1, stopping_);
  if (!turn || !must_drop(group, parts_.executor.now())) co_return;
  const auto dropped = co_await empty(group);
  if (dropped) {
    SPATE_LOG("server/io", info, "the copies of a group that others have taken over are removed group={} target={}",
              group.id, group.self);
  } else if (!stopping_.stopped()) {
    SPATE_LOG("server/io", warn,
              "copies of a group that others have taken over cannot be removed now group={} error={}", group.id,
              dropped.error());
  }
}

job::Task<void> Mirrors::change_record(MirrorGroup& group, RecordChange what, job::StopToken stop) {
  const auto turn = co_await group.alter_turn.acquire(1, stop);
  if (!turn) co_return;
  while (!stop.stopped() && group.is_primary()) {
    DataGroup next = group.record;
    ++next.epoch;
    for (const GroupMember& member : what.members) {
      GroupMember* const own = next.find(member.target);
      if (own != nullptr) own->state = member.state;
    }
    GroupMember* const replaced = next.find(what.replaced);
    if (replaced != nullptr) replaced->target = what.replacement;
    if (what.primary) next.primary = what.primary;
    const bool differs = what.renew || next.members != group.record.members || next.primary != group.record.primary;
    if (!differs || !check_change(group.record, next, group.self)) co_return;
    wire::ChangeGroupRequest request;
    request.from_epoch = group.record.epoch;
    request.by = group.self;
    request.next = next;
    const auto reply = co_await group_records_->change(std::move(request), stop);
    if (!reply) {
      if (const auto more = group_records_log_.admit())
        SPATE_LOG("server/io", warn, "the record of a group cannot be changed now group={} error={}{}", group.id,
                  reply.error(), *more);
      if (what.once) co_return;
      std::ignore = co_await parts_.executor.sleep(kRetry, stop);
      continue;
    }
    if (!reply->made && reply->now.epoch < group.record.epoch) {  // the meta server's store is an old copy
      if (what.once) co_return;
      std::ignore = co_await parts_.executor.sleep(kRetry, stop);
      continue;
    }
    learn(reply->now);
    if (!group.is_primary()) co_return;  // this term ends, and waits for its tasks; this may be one of them
    Result<void> accepted = Errc::kTryAgain;
    while (!accepted && !stop.stopped()) {
      accepted = co_await accept(group);
      if (!accepted) std::ignore = co_await parts_.executor.sleep(kRetry, stop);
    }
    if (reply->made) co_return;
  }
}

job::Task<void> Mirrors::mind(MirrorGroup& group) {
  group.minded = true;
  if (group.term != nullptr) {
    mind_members(*group.term);
  } else if (must_take_over(group)) {
    co_await take_over(group);
  } else if (group.accepted < group.record.epoch && may_accept(group, group.record)) {
    if (!waits_for_removal(parts_, group)) co_await accept_later(group);
  } else if (must_drop(group, parts_.executor.now())) {
    co_await drop_copy(group);
  }
  const bool accepts = !group.fresh && group.accepted == group.record.epoch;
  if (group.term == nullptr && group.is_primary() && accepts && !stopping_.stopped()) begin_term(group);
  group.minded = false;
}

/// Starts the tasks that the primary needs for the other members.
void Mirrors::mind_members(PrimaryTerm& term) {
  const MonoTime now = parts_.executor.now();
  for (const auto& [target, follower] : term.forwarder().followers()) {
    const bool silent = follower->heard + timing_.grace < now;
    const bool goes = follower->goes && !leaving_;
    const bool serves = follower->state == MemberState::kServing;
    if (silent && follower->state == MemberState::kJoining && !follower->promoted) give_up(*follower);
    const bool lost = follower->state == MemberState::kJoining && !follower->returns;
    if (!follower->leaves && ((serves && (silent || follower->fresh || goes)) || lost)) {
      follower->leaves = true;
      const char* const why = goes ? "it ends" : silent ? "it is silent" : "it was started anew";
      job::spawn(term.gate(), term.forwarder().leave_out(follower, why));
    }
    const bool there = follower->answers && follower->heard + timing_.message >= now;
    if (follower->state == MemberState::kAbsent && there && !follower->returns && now >= follower->returns_from &&
        term.is_open() && !follower->goes && !leaving_) {
      follower->returns = true;
      job::spawn(term.gate(), term.let_return(follower));
    }
    if (follower->state == MemberState::kAbsent && !follower->returns && term.is_open() && !leaving_)
      replacer_.look(term.group(), follower, term.gate(), term.token());
  }
}

bool Mirrors::must_take_over(const MirrorGroup& group) const {
  if (!group.serves() || group.lacks_all || group_records_ == nullptr || stopping_.stopped()) return false;
  const MonoTime now = parts_.executor.now();
  if (group.fresh && group.is_primary() && is_nobody_older(group)) return true;
  if (group.fresh) {
    const Duration reboot = group.rebooted ? kAfterReboot : Duration(0);
    const Duration timeout = (group.is_primary() ? kFreshPrimary : kFreshBackup) + reboot;
    return std::max(group.heard, started_) + timeout < now;
  }
  // The primary of a new group may not know the group yet.
  const Duration timeout = timing_.grace + (group.record.epoch == 1 ? timing_.read_record : Duration(0));
  return !group.is_primary() && group.accepted == group.record.epoch && group.heard + timeout < now;
}

/// The meta server and this member may both have an old record, if the meta server's store was put back from a backup.
/// Then members that have gone on know better.
job::Task<bool> Mirrors::others_know_better(MirrorGroup& group) {
  if (planted(Defect::kOldRecordBelieved)) co_return false;
  // The primary of this very record was there a moment ago.
  if (!group.fresh && parts_.executor.now() < group.acknowledged + timing_.grace * 2) co_return false;
  const Duration time = group.fresh ? timing_.beacon * 2 : timing_.beacon;
  const bool outdated = co_await beacons_.is_outdated(group.record, group.self, time);
  if (!outdated) co_return false;
  contradicted();
  group.heard = parts_.executor.now();  // it does not ask again at once
  if (const auto more = group_records_log_.admit())
    SPATE_LOG("server/io", warn,
              "a group is not taken over: another member knows a later record than the meta server group={} epoch={}{}",
              group.id, group.record.epoch, *more);
  co_return true;
}

job::Task<void> Mirrors::take_over(MirrorGroup& group) {
  const std::uint64_t known = group.record.epoch;
  const bool better = co_await others_know_better(group);
  if (better || group.record.epoch != known || !must_take_over(group)) co_return;
  // Until the outcome is known nothing of the present epoch is acknowledged.
  group.accusing = true;
  wire::ChangeGroupRequest request;
  request.from_epoch = group.record.epoch;
  request.by = group.self;
  request.next = group.record;
  ++request.next.epoch;
  request.next.primary = group.self;
  for (GroupMember& member : request.next.members) {
    const bool stays = member.state == MemberState::kServing && member.target != group.record.primary && !group.fresh;
    if (member.target != group.self && !stays) member.state = MemberState::kAbsent;
  }
  // Unsynced writes may be lost. A former primary that has more receives the copy of this member when it returns.
  if (group.fresh && group.rebooted) ++request.next.loss;
  SPATE_LOG("server/io", warn, "takes over a group whose primary is silent group={} primary={} epoch={}", group.id,
            group.record.primary, group.record.epoch);
  const bool made = co_await ask_for_place(group, request);
  if (made) group.fresh = false;
  group.accusing = false;
  group.heard = parts_.executor.now();
  co_await accept_later(group);
}

/// Asks until the outcome is known. False: another member was first, or the meta server refuses the change.
job::Task<bool> Mirrors::ask_for_place(MirrorGroup& group, const wire::ChangeGroupRequest& request) {
  bool made = false;
  job::DeadlineScope asking(parts_.executor, MonoTime::never(), stopping_);
  group.asking = &asking.source();
  while (!asking.token().stopped()) {
    const auto reply = co_await group_records_->change(request, asking.token());
    if (reply && reply->now.epoch > request.from_epoch) {
      made = reply->made;
      learn(reply->now);
      break;
    }
    if (reply.code() == Errc::kInvalidArgument || reply.code() == Errc::kNotFound) break;
    std::ignore = co_await parts_.executor.sleep(kRetry, asking.token());
  }
  group.asking = nullptr;
  co_return made;
}

/// The meta server's record is older than the one that this member accepts. It is told the later one.
job::Task<void> Mirrors::report(TargetId id) {
  const MirrorGroup* const group = find(id);
  if (group == nullptr || group->accepted != group->record.epoch) co_return;
  wire::ChangeGroupRequest request;
  request.from_epoch = group->record.epoch;
  request.by = group->self;
  request.next = group->record;
  if (request.next.find(request.by) == nullptr) co_return;
  const auto reply = co_await group_records_->change(std::move(request), stopping_);
  if (reply) co_return;
  if (const auto more = group_records_log_.admit())
    SPATE_LOG("server/io", error, "the meta server has an older record of a group and keeps it group={} error={}{}", id,
              reply.error(), *more);
}

void Mirrors::begin_term(MirrorGroup& group) {
  auto term = std::make_shared<PrimaryTerm>(*this, group, group.record.epoch);
  group.term = term;
  std::vector<ChangedRegion> doubtful = group.taken.doubtful();
  group.taken.clear();
  group.term_taken = group.record.epoch;
  // A group that has never had a primary before has no other that could still answer.
  const MonoTime serves_from = group.record.epoch == 1 ? MonoTime() : group.acknowledged + timing_.grace;
  job::spawn(gate_, serve_term(std::move(term), std::move(doubtful), serves_from));
}

job::Task<void> Mirrors::serve_term(std::shared_ptr<PrimaryTerm> term, std::vector<ChangedRegion> doubtful,
                                    MonoTime serves_from) {
  co_await term->open(std::move(doubtful), serves_from);
  while (!term->token().stopped()) {
    const auto slept = co_await parts_.executor.sleep(kWindow, term->token());
    if (!slept) co_return;
    co_await term->close_window();
  }
}

}  // namespace spate::io
