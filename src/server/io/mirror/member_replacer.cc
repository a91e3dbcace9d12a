// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/member_replacer.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "model/member_choice.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(50);
constexpr Duration kPauseAfterFailure = std::chrono::seconds(2);
constexpr Duration kPauseWithoutRoom = std::chrono::seconds(30);
constexpr std::uint64_t kReserve = 64;  // this part of a device is left free
constexpr std::size_t kMeasuredAtOnce = 256;
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
  CopySize size;
  bool no_room = false;
  for (const TargetId candidate : replacements(host_.peers().map(), group.record, follower->target)) {
    if (stop.stopped() || follower->returns || follower->gone.stopped()) break;
    const bool ready = co_await has_no_claim(group, candidate, stop);
    if (!ready) continue;
    const std::optional<TargetId> place = co_await with_room(group, candidate, size, stop);
    if (!place) no_room = true;
    if (!place) continue;
    if (stop.stopped() || follower->returns || follower->gone.stopped()) break;  // may have changed
    MirrorHost::RecordChange what;
    what.replaced = follower->target;
    what.replacement = chosen = *place;
    what.once = true;
    co_await host_.change_record(group, std::move(what), stop);
    break;
  }
  follower->no_room = no_room && !chosen;
  const bool done = chosen && group.record.find(chosen) != nullptr;
  busy_ = false;
  next_ = executor_.now() + kPause;
  // Others have their turn first.
  follower->replaced_from = executor_.now() + (follower->no_room ? kPauseWithoutRoom : kPauseAfterFailure);
  if (done) {
    SPATE_LOG("server/io", warn, "another target takes the place of a member that stays away group={} target={} new={}",
              group.id, follower->target, chosen);
  } else if (chosen || stop.stopped()) {
    // The meta server has refused it, and change_record() has said why; or this server leads no more.
  } else if (const auto more = log_.admit()) {
    SPATE_LOG("server/io", warn, "no other server {} the place of a member that stays away group={} target={}{}",
              follower->no_room ? "has room to take" : "can take", group.id, follower->target, *more);
  }
}

bool MemberReplacer::has_room(const wire::TargetSpace& space, const CopySize& size) {
  const std::uint64_t reserve = space.total_bytes / kReserve;
  const bool files = space.total_files == 0 || space.free_files > size.files;  // some file systems have no such limit
  return files && space.free_bytes >= reserve && space.free_bytes - reserve >= size.bytes;
}

job::Task<Result<std::vector<wire::TargetSpace>>> MemberReplacer::space_of(ServerId server, job::StopToken stop) {
  rpc::CallOptions options;
  options.deadline = executor_.now() + host_.timing().message;
  options.priority = wire::Priority::kControl;
  options.stop = stop;
  options.reply_room = kAcceptRoom;
  const wire::IoStatfsRequest request;
  SPATE_CO_TRY(wire::IoStatfsReply reply,
               co_await host_.peers().call<wire::IoStatfsReply>(server, MirrorPeers::Lane::kBeacons, request, options));
  co_return std::move(reply.targets);
}

/// Adds up what the group's datafiles take on this member.
job::Task<Result<void>> MemberReplacer::measure(MirrorGroup& group, CopySize& size, job::StopToken stop) {
  size = {0, 0, true};
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  for (DatafileId after;;) {
    SPATE_CO_TRY(const std::vector<DatafileId> page, co_await group.log.list(after, kMeasuredAtOnce));
    if (page.empty()) co_return Result<void>();
    after = page.back();
    for (const DatafileId& datafile : page) {
      SPATE_CO_TRY(const auto stat, co_await stat_datafile(group.target, background, datafile, stop));
      size.bytes += stat.allocated_bytes;
      ++size.files;
    }
  }
}

job::Task<std::optional<TargetId>> MemberReplacer::with_room(MirrorGroup& group, TargetId candidate, CopySize& size,
                                                             job::StopToken stop) {
  auto spaces = co_await space_of(server_of(candidate), stop);
  if (!spaces) co_return std::nullopt;
  const auto first = std::ranges::find(*spaces, candidate, &wire::TargetSpace::target);
  if (first != spaces->end()) std::iter_swap(spaces->begin(), first);
  const auto fits = [&size](const wire::TargetSpace& space) { return has_room(space, size); };
  if (!size.exact) {
    const auto own = group.target.get().description.storage.store().space();
    if (own) size = {own->total_bytes - own->free_bytes, own->total_files - own->free_files, false};
    if (own && !spaces->empty() && fits(spaces->front())) co_return spaces->front().target;
    const auto measured = co_await measure(group, size, stop);
    if (!measured) size = {};
    if (!measured) co_return std::nullopt;
  }
  const auto found = std::ranges::find_if(*spaces, fits);
  if (found == spaces->end()) co_return std::nullopt;
  co_return found->target;
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
