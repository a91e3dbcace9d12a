// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/member_replacer.h"

#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "model/member_choice.h"

namespace spate::io {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(50);
constexpr Duration kPauseAfterFailure = std::chrono::seconds(2);
constexpr std::uint32_t kAcceptRoom = 256 * 1024;  // of a reply

}  // namespace

MemberReplacer::MemberReplacer(MirrorHost& host)
    : host_(host), executor_(host.parts().executor), log_(host.parts().executor.clock()) {}

void MemberReplacer::look(MirrorGroup& group, const MirrorFollowerPtr& follower, job::Gate& gate, job::StopToken stop) {
  const Duration after = host_.parts().options.rebuild_after;
  const MonoTime now = executor_.now();
  if (after == Duration(0) || busy_ || now < next_) return;
  if (now < follower->absent_since + after || now < follower->replaced_from) return;
  busy_ = true;
  if (!job::spawn(gate, replace(group, follower, stop))) busy_ = false;
}

job::Task<void> MemberReplacer::replace(MirrorGroup& group, MirrorFollowerPtr follower, job::StopToken stop) {
  TargetId chosen;
  if (executor_.now() >= map_from_) {
    map_from_ = executor_.now() + kPauseAfterFailure;
    co_await host_.fetch_map();
  }
  for (const TargetId candidate : replacements(host_.peers().map(), group.record, follower->target)) {
    if (stop.stopped() || follower->returns || follower->gone.stopped()) break;
    const bool ready = co_await has_no_claim(group, candidate, stop);
    if (!ready) continue;
    MirrorHost::RecordChange what;
    what.replaced = follower->target;
    what.replacement = chosen = candidate;
    what.once = true;
    co_await host_.change_record(group, std::move(what), stop);
    break;
  }
  const bool done = chosen && group.record.find(chosen) != nullptr;
  busy_ = false;
  next_ = executor_.now() + kPause;
  follower->replaced_from = executor_.now() + kPauseAfterFailure;  // others have their turn first
  if (done) {
    SPATE_LOG("server/io", warn, "another target takes the place of a member that stays away group={} target={} new={}",
              group.id, follower->target, chosen);
  } else if (chosen || stop.stopped()) {
    // The meta server has refused it, and change_record() has said why; or this server leads no more.
  } else if (const auto more = log_.admit()) {
    SPATE_LOG("server/io", warn, "no other server can take the place of a member that stays away group={} target={}{}",
              group.id, follower->target, *more);
  }
}

job::Task<bool> MemberReplacer::has_no_claim(const MirrorGroup& group, TargetId candidate, job::StopToken stop) {
  wire::MirrorObeyRequest request;
  request.record = group.record;
  rpc::CallOptions options;
  options.deadline = executor_.now() + host_.timing().message;
  options.priority = wire::Priority::kControl;
  options.stop = stop;
  options.reply_room = kAcceptRoom;
  const auto reply = co_await host_.peers().call<wire::MirrorObeyReply>(server_of(candidate),
                                                                        MirrorPeers::Lane::kBeacons, request, options);
  if (!reply) co_return false;
  if (planted(Defect::kFormerMemberBelieved)) co_return true;
  if (reply->verdict == wire::MirrorVerdict::kStranger) co_return true;
  co_return reply->verdict == wire::MirrorVerdict::kDone && (reply->flags & wire::BeaconAnswer::kLacksAll) != 0;
}

}  // namespace spate::io
