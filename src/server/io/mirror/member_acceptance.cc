// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/member_acceptance.h"

#include <algorithm>

namespace spate::io {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(50);
constexpr Duration kYieldPause = std::chrono::milliseconds(5);
constexpr std::uint32_t kDoubtfulRoom = 256 * 1024;  // of a reply

}  // namespace

MemberAcceptance::MemberAcceptance(MirrorHost& host, MirrorGroup& group, std::uint64_t term, Forwarder& forwarder,
                                   job::StopSource& stopping, job::Gate& gate)
    : parts_(host.parts()),
      host_(host),
      group_(group),
      term_(term),
      forwarder_(forwarder),
      stopping_(stopping),
      gate_(gate) {}

job::Task<Result<wire::MirrorObeyReply>> MemberAcceptance::ask(MirrorFollower& follower) {
  wire::MirrorObeyRequest request;
  request.record = group_.record;
  request.term = term_;
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

job::Task<void> MemberAcceptance::tell_term(MirrorFollowerPtr follower) { std::ignore = co_await ask(*follower); }

job::Task<void> MemberAcceptance::wait_to_serve(MonoTime serves_from) {
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

job::Task<void> MemberAcceptance::ask_until_it_accepts(MirrorFollowerPtr follower) {
  while (!stopping_.stopped() && !follower->gone.stopped() && follower->accepted < group_.record.epoch) {
    const auto reply = co_await ask(*follower);
    if (reply && (reply->flags & wire::BeaconAnswer::kFresh) != 0) co_return;  // mind_members() sees to it
    if (follower->accepted >= group_.record.epoch) co_return;
    const auto slept = co_await parts_.executor.sleep(kAcceptPause, follower->gone);
    if (!slept) co_return;
  }
}

}  // namespace spate::io
