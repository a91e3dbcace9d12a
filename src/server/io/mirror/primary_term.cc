// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/primary_term.h"

#include <algorithm>
#include <limits>
#include <set>

#include "job/deadline.h"
#include "job/run_all.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/io/full_target.h"
#include "server/io/mirror/member_changes.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr Duration kOpenPause = std::chrono::milliseconds(50);
constexpr Duration kFailsAtOnce = std::chrono::seconds(8);

Error not_primary(const MirrorGroup& group) {
  return Error::told(Errc::kNotPrimary, "this server does not lead group " + std::to_string(group.id.value) + " now");
}

/// Whether too few members serve for a change to be answered.
bool lacks_copies(const MirrorGroup& group) {
  return group.record.serving() < group.record.min && !planted(Defect::kMinIgnored);
}

Error too_few_copies(const MirrorGroup& group) {
  return Error::told(Errc::kNotPrimary, "its group " + std::to_string(group.id.value) + " has " +
                                            std::to_string(group.record.serving()) + " of at least " +
                                            std::to_string(group.record.min) +
                                            " copies (min_copies): changes wait for more");
}

/// The range that the change concerns: the hull of its extents, or the whole datafile.
RangeLocks::Range range_of(const trove::BytestreamRequest& request) {
  using trove::BytestreamOp;
  if (planted(Defect::kOverlapsUnordered)) return {0, 0};
  if (request.op == BytestreamOp::kTruncate || request.op == BytestreamOp::kRemove) return {};
  RangeLocks::Range range{~std::uint64_t{0}, 0};
  for (const Extent& extent : request.extents) {
    range.begin = std::min(range.begin, extent.offset);
    range.end = std::max(range.end, extent.offset + extent.size);
  }
  if (range.begin >= range.end) range.begin = range.end = 0;
  if (request.extend) range.end = std::numeric_limits<std::uint64_t>::max();  // it moves the datafile's end
  return range;
}

wire::MirrorChange change_of(trove::BytestreamOp op) {
  switch (op) {
    case trove::BytestreamOp::kPunch: return wire::MirrorChange::kPunch;
    case trove::BytestreamOp::kAllocate: return wire::MirrorChange::kAllocate;
    case trove::BytestreamOp::kTruncate: return wire::MirrorChange::kTruncate;
    case trove::BytestreamOp::kRemove: return wire::MirrorChange::kRemove;
    default: return wire::MirrorChange::kWrite;
  }
}

/// A return that has failed does not begin a new time until the member is replaced, unless it has lasted so long that
/// the member must have received something: a member that is given much is not replaced when its process restarts.
void keep_patience(const MirrorFollower& before, MirrorFollower& after) {
  after.returns_from = before.returns_from;
  after.return_pause = before.return_pause;
  after.replaced_from = before.replaced_from;
  if (after.absent_since - before.joining_since < kFailsAtOnce) after.absent_since = before.absent_since;
}

}  // namespace

PrimaryTerm::PrimaryTerm(MirrorHost& host, MirrorGroup& group, std::uint64_t number)
    : parts_(host.parts()),
      host_(host),
      group_(group),
      number_(number),
      locks_(parts_.executor),
      gate_(parts_.executor),
      forwarder_(host, group, number, stopping_, gate_),
      copier_(host, group, locks_, forwarder_, stopping_),
      acceptance_(host, group, number, forwarder_, stopping_, gate_),
      returns_(host, group, acceptance_, copier_, stopping_, gate_) {}

bool PrimaryTerm::leads() const {
  if (!open_ || stopping_.stopped() || !group_.is_primary()) return false;
  const group::Timing& timing = host_.timing();
  const Duration lease = planted(Defect::kLongLease) ? timing.grace + timing.stalled : timing.lease;
  const MonoTime now = parts_.executor.now();
  bool alone = true;
  for (const auto& [target, follower] : forwarder_.followers()) {
    const bool required = follower->state == MemberState::kServing || follower->promoted;
    alone = alone && !required;
    if (required && (follower->acknowledged < MonoTime() || follower->acknowledged + lease <= now)) return false;
  }
  return !alone || host_.is_awake() || planted(Defect::kSleeperLeads);
}

Result<void> PrimaryTerm::check() const {
  if (leads()) return {};
  return not_primary(group_);
}

void PrimaryTerm::record_changed() {
  if (stopping_.stopped()) return;
  std::erase_if(forwarder_.followers(), [this](const auto& entry) {
    const bool replaced = group_.record.find(entry.first) == nullptr;
    if (replaced) entry.second->gone.request_stop();
    return replaced;
  });
  for (const GroupMember& member : group_.record.members) {
    if (member.target == group_.self) continue;
    MirrorFollowerPtr& follower = forwarder_.followers()[member.target];
    const bool left =
        follower != nullptr && member.state == MemberState::kAbsent && follower->state != MemberState::kAbsent;
    if (left) follower->gone.request_stop();
    if (left || follower == nullptr) {
      const MirrorFollowerPtr before = follower;
      follower = std::make_shared<MirrorFollower>(member.target, parts_.executor.now());
      if (before != nullptr && before->state == MemberState::kJoining) keep_patience(*before, *follower);
    }
    if (member.state == MemberState::kJoining && follower->state != MemberState::kJoining)
      follower->joining_since = parts_.executor.now();
    follower->state = member.state;
    if (member.state != MemberState::kAbsent) job::spawn(gate_, acceptance_.ask_until_it_accepts(follower));
  }
}

job::Task<void> PrimaryTerm::open(std::vector<ChangedRegion> doubtful, MonoTime serves_from) {
  const job::Gate::Pass in(gate_);
  record_changed();
  for (const GroupMember& member : std::vector<GroupMember>(group_.record.members)) {
    if (member.target == group_.self) continue;
    const auto found = forwarder_.followers().find(member.target);
    if (found == forwarder_.followers().end()) continue;
    const MirrorFollowerPtr follower = found->second;
    bool accepts = false;
    while (!accepts && follower->state == MemberState::kServing && !stopping_.stopped() && !follower->gone.stopped()) {
      const auto reply = co_await acceptance_.ask(*follower);
      accepts = reply && reply->verdict == wire::MirrorVerdict::kDone;
      if (!accepts) {
        std::ignore = co_await parts_.executor.sleep(kOpenPause, follower->gone);
        continue;
      }
      for (const wire::MirrorRegion& region : reply->doubtful)
        doubtful.push_back({{region.handle, region.slot}, region.to_the_end, region.region});
    }
  }
  if (group_.record.epoch == 1 && !stopping_.stopped()) {  // from now on a member without a note has lost its data
    MirrorHost::RecordChange what;
    what.renew = true;
    co_await host_.change_record(group_, std::move(what), stopping_);
  }
  std::ranges::sort(doubtful);
  const auto repeated = std::ranges::unique(doubtful);
  doubtful.erase(repeated.begin(), repeated.end());
  co_await make_equal(doubtful);
  co_await acceptance_.wait_to_serve(serves_from);
  if (stopping_.stopped()) co_return;
  open_ = true;
  SPATE_LOG("server/io", info, "leads a group group={} epoch={} doubtful={}", group_.id, group_.record.epoch,
            doubtful.size());
}

job::Task<void> PrimaryTerm::hand_over() {
  MirrorHost::RecordChange what;
  for (const auto& [target, follower] : forwarder_.followers()) {
    if (follower->state != MemberState::kServing) continue;
    const bool there = follower->heard + host_.timing().message >= parts_.executor.now();
    if (!follower->goes && there) what.primary = target;
    if (follower->goes) what.members.push_back({target, MemberState::kAbsent});
  }
  if (what.primary) what.members.push_back({group_.self, MemberState::kAbsent});
  co_await host_.change_record(group_, std::move(what), stopping_);
}

void PrimaryTerm::halt() {
  stopping_.request_stop(Errc::kNotPrimary);
  for (const auto& [target, follower] : forwarder_.followers()) follower->gone.request_stop();
}

job::Task<void> PrimaryTerm::end() {
  halt();
  co_await gate_.close();
}

wire::MirrorForwardRequest PrimaryTerm::message_of(const trove::BytestreamRequest& request,
                                                   const MirrorExtras& extras) {
  wire::MirrorForwardRequest out = forwarder_.message(request.id, change_of(request.op));
  out.extents.reserve(request.extents.size());
  for (const Extent& extent : request.extents) out.extents.push_back({extent.offset, extent.size});
  out.extend = request.extend;
  out.size = request.size;
  out.truncate_generation = extras.truncate_generation;
  out.time = out.change == wire::MirrorChange::kRemove ? extras.tombstone_until : request.now;
  return out;
}

job::Task<Result<void>> PrimaryTerm::note(const trove::BytestreamRequest& request) {
  Result<void> noted;
  if (request.op == trove::BytestreamOp::kTruncate) {
    noted = co_await group_.log.note_from(request.id, request.size, forwarder_.window());
  } else if (request.op == trove::BytestreamOp::kRemove) {
    noted = co_await group_.log.note_from(request.id, 0, forwarder_.window());
  } else {
    noted = co_await group_.log.note(request.id, request.extents, forwarder_.window());
  }
  co_return noted;
}

job::Task<Result<trove::BytestreamCompletion>> PrimaryTerm::change(trove::BytestreamRequest request,
                                                                   MirrorExtras extras, flow::Asker asker,
                                                                   job::StopToken stop) {
  const RangeLocks::Range range = range_of(request);
  SPATE_CO_TRY(RangeLocks::Hold hold, co_await locks_.take(request.id, range, stop));
  SPATE_CO_TRY(std::ignore, check());
  if (lacks_copies(group_)) co_return too_few_copies(group_);
  const Forwarder::Running running(forwarder_);
  // The note is made in the present window: the window is not closed while this runs.
  SPATE_CO_TRY(std::ignore, co_await note(request));
  SPATE_CO_TRY(std::ignore, check());  // may have changed
  wire::MirrorForwardRequest message = message_of(request, extras);
  message.number = running.number();
  ByteView data;
  if (!request.memory.empty()) data = request.memory.front();
  Result<trove::BytestreamCompletion> own = Errc::kCancelled;
  if (planted(Defect::kOwnCopyFirst)) own = co_await run_op(group_.target, asker, request, {});
  auto told = co_await forwarder_.tell(message, data, asker.trace);
  if (stopping_.stopped()) co_return not_primary(group_);
  // The member that completed the number of copies may have left while this waited for it.
  if (told && lacks_copies(group_)) told = too_few_copies(group_);
  if (told && !planted(Defect::kOwnCopyFirst)) own = co_await run_op(group_.target, asker, request, {});
  if (told && own) co_return own;
  if (told) note_if_full(parts_, group_.target, own.code());
  // Some members may have changed their copies, others not.
  const Errc why = told ? own.code() : told.code();
  hold = RangeLocks::Hold();
  if (told && !is_refusal(why)) {
    co_await step_down(why);
    if (!group_.is_primary()) co_return not_primary(group_);
  }
  // Reserved space is no content: what a member has got of it stays, as on a local file system.
  const bool changes_bytes = request.op != trove::BytestreamOp::kAllocate;
  SPATE_CO_TRY(std::ignore, co_await mend(request.id, changes_bytes ? range : RangeLocks::Range{0, 0}));
  co_return told ? own.error() : told.error();
}

job::Task<Result<void>> PrimaryTerm::sync_mirrors(DatafileId datafile, TraceId trace) {
  SPATE_CO_TRY(std::ignore, check());
  if (lacks_copies(group_)) co_return too_few_copies(group_);
  const Forwarder::Running running(forwarder_);
  wire::MirrorForwardRequest request = forwarder_.message(datafile, wire::MirrorChange::kSync);
  request.number = running.number();
  std::vector<job::Task<Result<void>>> tasks;
  tasks.push_back(forwarder_.tell(request, {}, trace));
  // A member that is away, or lacks all data, is given what this member's notes and list name.
  if (!planted(Defect::kNotesNotSynced)) tasks.push_back(group_.log.make_durable());
  SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks)));
  if (lacks_copies(group_)) co_return too_few_copies(group_);
  auto led = check();
  co_return led;
}

/// Makes another member the primary, because this member's own copy takes no changes any more.
job::Task<void> PrimaryTerm::step_down(Errc why) {
  for (const auto& [target, follower] : forwarder_.followers()) {
    if (follower->state != MemberState::kServing) continue;
    SPATE_LOG("server/io", error,
              "another member of the group becomes the primary: own target failed group={} error={}", group_.id,
              name(why));
    co_await make_primary(target);
    co_return;
  }
}

/// This member becomes absent, and returns.
job::Task<void> PrimaryTerm::make_primary(TargetId other) {
  MirrorHost::RecordChange what;
  what.members.push_back({group_.self, MemberState::kAbsent});
  what.primary = other;
  co_await host_.change_record(group_, std::move(what), stopping_);
}

Result<void> PrimaryTerm::check_renewal(const wire::CopyRenewRequest& request, const job::StopToken& stop) const {
  SPATE_TRY(std::ignore, check());
  if (stop.stopped()) return Errc::kCancelled;
  if (!group_.record.serves(request.member) || !group_.record.serves(request.source))
    return Error::told(Errc::kTryAgain, "a member of the group does not serve now");
  if (request.member == request.source || (request.source != group_.self && request.member != group_.self))
    return Error::told(Errc::kInvalidArgument, "copies are made anew from the primary, or those of the primary");
  return {};
}

/// Notes nothing in the change log: the next primary would take a note of this member for a change that this member
/// lacks, and replace its copy, which is the right one.
job::Task<Result<std::uint64_t>> PrimaryTerm::renew(wire::CopyRenewRequest request, job::StopToken stop) {
  SPATE_CO_TRY(std::ignore, check_renewal(request, stop));
  const job::Gate::Pass in(gate_);
  std::set<DatafileId> there;
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  for (const wire::DatafileRef& datafile : request.datafiles) {
    if (request.member == group_.self) break;
    const DatafileId id{datafile.handle, datafile.slot.slot};
    SPATE_CO_TRY(const auto stat, co_await stat_datafile(group_.target, background, id, stop));
    if (stat.change_counter != 0) there.insert(id);
  }
  SPATE_CO_TRY(std::ignore, check_renewal(request, stop));  // may have changed
  const std::uint64_t epoch = group_.record.epoch;
  if (request.member == group_.self) {
    SPATE_LOG("server/io", warn, "another member becomes the primary: own copies are to be made anew group={}",
              group_.id);
    co_await make_primary(request.source);
  } else {
    const auto found = forwarder_.followers().find(request.member);
    if (there.empty() || found == forwarder_.followers().end())
      co_return Error::told(Errc::kNotFound, "the primary has none of the datafiles");
    const MirrorFollowerPtr follower = found->second;
    follower->leaves = true;
    returns_.renew(request.member, std::move(there));
    co_await forwarder_.leave_out(follower, "its copies are made anew");
  }
  if (group_.record.epoch == epoch || group_.record.serves(request.member))
    co_return Error::told(Errc::kTryAgain, "the record of the group has not been changed");
  co_return epoch;
}

job::Task<Result<void>> PrimaryTerm::window_of(MirrorFollowerPtr follower, std::uint64_t window, bool forget) {
  wire::MirrorWindowRequest request;
  request.group = group_.id;
  request.epoch = group_.record.epoch;
  request.up_to = window;
  request.forget = forget;
  rpc::CallOptions options;
  options.deadline = parts_.executor.now() + std::chrono::seconds(60);
  options.stop = follower->gone;
  SPATE_CO_TRY(const auto reply, co_await host_.peers().call<wire::MirrorWindowReply>(
                                     follower->server, MirrorPeers::Lane::kData, request, options));
  if (reply.verdict != wire::MirrorVerdict::kDone)
    co_return Error(Errc::kTryAgain, "the member does not accept this epoch yet");
  if (reply.status != Errc::kOk) co_await forwarder_.evict(follower, "it could not make changes durable");
  if (reply.status != Errc::kOk) co_return reply.status;
  co_return Result<void>();
}

job::Task<void> PrimaryTerm::close_window() {
  if (!leads()) co_return;
  const job::Gate::Pass in(gate_);
  if (!group_.record.is_whole() || group_.log.size() == 0) co_return;
  const std::uint64_t window = forwarder_.next_window();
  const auto ended = co_await forwarder_.wait_until_done();  // also those that began in earlier windows
  if (!ended) co_return;
  const std::uint64_t epoch = group_.record.epoch;
  std::vector<MirrorFollowerPtr> all;
  for (const auto& [target, follower] : forwarder_.followers()) all.push_back(follower);
  std::vector<job::Task<Result<void>>> tasks;
  if (!planted(Defect::kLogDroppedEarly)) {
    tasks.push_back(sync_noted(parts_, group_, window, token()));
    for (const MirrorFollowerPtr& follower : all) tasks.push_back(window_of(follower, window, false));
  }
  Result<void> done = co_await job::run_all(parts_.executor, std::move(tasks));
  if (!done || !leads() || group_.record.epoch != epoch) co_return;
  // All members have all changes of the window. A member that receives this message never lacks them, even after a
  // crash.
  for (const MirrorFollowerPtr& follower : all) std::ignore = co_await window_of(follower, window, true);
  done = co_await group_.log.forget(window);
  if (!done) SPATE_LOG("server/io", warn, "notes of changes stay for now group={} error={}", group_.id, done.error());
}

}  // namespace spate::io
