// SPDX-License-Identifier: Apache-2.0
// Which members the primary knows, and how it makes them accept its record.
#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "server/io/mirror/primary_term.h"

namespace spate::io {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(50);
constexpr Duration kYieldPause = std::chrono::milliseconds(5);
constexpr std::uint32_t kDoubtfulRoom = 256 * 1024;  // of a reply
constexpr Duration kFailsAtOnce = std::chrono::seconds(8);

/// A return that has failed does not end the patience with a member, unless it has lasted so long that the member must
/// have received something. Otherwise a member that is given much would be replaced when its process restarts.
void keep_patience(const MirrorFollower& before, MirrorFollower& after) {
  after.returns_from = before.returns_from;
  after.return_pause = before.return_pause;
  after.replaced_from = before.replaced_from;
  if (after.absent_since - before.joining_since < kFailsAtOnce) after.absent_since = before.absent_since;
}

}  // namespace

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
    if (member.state != MemberState::kAbsent) job::spawn(gate_, make_accept(follower));
  }
}

job::Task<Result<wire::MirrorObeyReply>> PrimaryTerm::ask_to_accept(MirrorFollower& follower) {
  wire::MirrorObeyRequest request;
  request.record = group_.record;
  request.term = number_;
  rpc::CallOptions options;
  options.deadline = parts_.executor.now() + host_.timing().grace;
  options.priority = wire::Priority::kControl;
  options.reply_room = kDoubtfulRoom;
  options.stop = follower.gone;
  auto reply =
      co_await host_.peers().call<wire::MirrorObeyReply>(follower.server, MirrorPeers::Lane::kData, request, options);
  if (reply && reply->verdict == wire::MirrorVerdict::kDone)
    follower.accepted = std::max(follower.accepted, request.record.epoch);
  if (reply && reply->verdict == wire::MirrorVerdict::kOld) host_.contradicted();
  if (reply && (reply->verdict == wire::MirrorVerdict::kDone || reply->verdict == wire::MirrorVerdict::kNotYet))
    follower.yields = true;
  co_return reply;
}

job::Task<void> PrimaryTerm::tell_term(MirrorFollowerPtr follower) { std::ignore = co_await ask_to_accept(*follower); }

/// Waits until the primary before this one answers nobody any more. That is at `serves_from`, or earlier if it knows of
/// this term.
job::Task<void> PrimaryTerm::wait_to_serve(MonoTime serves_from) {
  for (const auto& [target, follower] : forwarder_.followers()) {
    if (!follower->yields) job::spawn(gate_, tell_term(follower));
  }
  const auto yields = [](const auto& entry) { return entry.second->yields; };
  while (parts_.executor.now() < serves_from && !std::ranges::all_of(forwarder_.followers(), yields)) {
    const MonoTime next = std::min(serves_from, parts_.executor.now() + kYieldPause);
    const auto slept = co_await parts_.executor.sleep_until(next, stopping_);
    if (!slept) co_return;
  }
}

/// Asks until the member accepts the present record or is absent, or until this term ends.
job::Task<void> PrimaryTerm::make_accept(MirrorFollowerPtr follower) {
  while (!stopping_.stopped() && !follower->gone.stopped() && follower->accepted < group_.record.epoch) {
    const auto reply = co_await ask_to_accept(*follower);
    if (reply && (reply->flags & wire::BeaconAnswer::kFresh) != 0) co_return;  // mind_members() sees to it
    if (follower->accepted >= group_.record.epoch) co_return;
    const auto slept = co_await parts_.executor.sleep(kAcceptPause, follower->gone);
    if (!slept) co_return;
  }
}

job::Task<void> PrimaryTerm::open(std::vector<ChangedRegion> doubtful, MonoTime serves_from) {
  const job::Gate::Holder in(gate_);
  record_changed();
  for (const GroupMember& member : std::vector<GroupMember>(group_.record.members)) {
    if (member.target == group_.self) continue;
    const auto found = forwarder_.followers().find(member.target);
    if (found == forwarder_.followers().end()) continue;
    const MirrorFollowerPtr follower = found->second;
    bool accepts = false;
    while (!accepts && follower->state == MemberState::kServing && !stopping_.stopped() && !follower->gone.stopped()) {
      const auto reply = co_await ask_to_accept(*follower);
      accepts = reply && reply->verdict == wire::MirrorVerdict::kDone;
      if (!accepts) {
        std::ignore = co_await parts_.executor.sleep(kAcceptPause, follower->gone);
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
  for (std::size_t i = 0; i < doubtful.size() && !stopping_.stopped();) {
    const std::vector<ChangedRegion> one(1, doubtful[i]);
    const RangeLocks::Range whole;
    auto lock = co_await locks_.take(doubtful[i].datafile, whole, stopping_);
    if (!lock) co_return;
    const auto copied = co_await copier_.copy_datafile(doubtful[i].datafile, one, nullptr);
    if (copied) ++i;
    if (copied || stopping_.stopped()) continue;
    SPATE_LOG("server/io", warn, "the copies of a datafile are not made equal yet group={} error={}", group_.id,
              copied.error());
    std::ignore = co_await parts_.executor.sleep(kAcceptPause, stopping_);
  }
  co_await wait_to_serve(serves_from);
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

/// Others may change the range while this waits for the whole datafile. Such changes are not lost, because they are
/// made on all members.
job::Task<Result<void>> PrimaryTerm::mend(DatafileId datafile, RangeLocks::Range range) {
  for (;;) {
    const RangeLocks::Range whole;
    SPATE_CO_TRY(const RangeLocks::Hold hold, co_await locks_.take(datafile, whole, stopping_));
    std::vector<ChangedRegion> regions;
    const std::uint64_t first = range.begin / ChangedRegion::kBytes;
    const std::uint64_t last = range.end == 0 ? 0 : (range.end - 1) / ChangedRegion::kBytes;
    if (last - first >= ChangeLog::kMostOfOneChange) {
      regions.push_back({datafile, true, first});
    } else {
      for (std::uint64_t r = first; r <= last; ++r) regions.push_back({datafile, false, r});
    }
    const auto copied = co_await copier_.copy_datafile(datafile, regions, nullptr);
    if (copied || stopping_.stopped()) co_return copied;
    if (copied.code() == Errc::kIoError) co_return copied;
    // A member that does not even take this member's data becomes absent. Its return mends its copy.
    for (const auto& [target, follower] : std::map<TargetId, MirrorFollowerPtr>(forwarder_.followers())) {
      if (forwarder_.counts(*follower)) co_await forwarder_.evict(follower, "its copy cannot be made equal");
    }
  }
}

}  // namespace spate::io
