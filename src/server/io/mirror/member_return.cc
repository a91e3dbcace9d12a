// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/member_return.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr Duration kReturnPause = std::chrono::seconds(1);
constexpr Duration kMostReturnPause = std::chrono::seconds(8);  // each failure doubles it
constexpr std::uint32_t kRecordsRoom = 256 * 1024;              // of a reply
constexpr std::size_t kPage = 4096;

/// Leaves each region of a datafile once, and none that another one covers. Both members may have noted the same one.
void simplify(std::vector<ChangedRegion>& regions) {
  std::sort(regions.begin(), regions.end());
  regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
  const auto found = std::ranges::find_if(regions, [](const ChangedRegion& each) { return each.to_the_end; });
  if (found == regions.end()) return;
  const ChangedRegion rest = *found;  // the one that begins first
  std::erase_if(regions, [&](const ChangedRegion& each) { return each != rest && each.region >= rest.region; });
}

}  // namespace

MemberReturn::MemberReturn(MirrorHost& host, MirrorGroup& group, MemberAcceptance& acceptance, MirrorCopier& copier,
                           job::StopSource& stopping, job::Gate& gate)
    : parts_(host.parts()),
      host_(host),
      group_(group),
      acceptance_(acceptance),
      copier_(copier),
      stopping_(stopping),
      gate_(gate) {}

job::Task<void> MemberReturn::run(MirrorFollowerPtr follower) {
  const job::Gate::Pass in(gate_);
  follower->returns = true;
  follower->failed = false;
  MirrorHost::RecordChange joining;
  joining.members.push_back({follower->target, MemberState::kJoining});
  co_await host_.change_record(group_, std::move(joining), stopping_);
  Result<void> done = Errc::kCancelled;
  if (follower->state == MemberState::kJoining) done = co_await catch_up(follower);
  if (stopping_.stopped() || follower->gone.stopped()) co_return;
  follower->return_pause = std::clamp(follower->return_pause * 2, kReturnPause, kMostReturnPause);
  follower->returns_from = parts_.executor.now() + follower->return_pause;
  MirrorHost::RecordChange outcome;
  if (done && !follower->failed) {
    follower->promoted = true;  // changes wait for it from now on: it may serve as soon as the record says so
    outcome.members.push_back({follower->target, MemberState::kServing});
  } else {
    SPATE_LOG("server/io", warn, "a member of a group has not returned, it tries again group={} target={} error={}",
              group_.id, follower->target, done ? Error(Errc::kIoError) : done.error());
    outcome.members.push_back({follower->target, MemberState::kAbsent});
  }
  co_await host_.change_record(group_, std::move(outcome), stopping_);
  follower->promoted = false;
  follower->returns = false;
  if (done && follower->state == MemberState::kServing)
    SPATE_LOG("server/io", info, "a member of a group has returned group={} target={}", group_.id, follower->target);
}

job::Task<Result<void>> MemberReturn::catch_up(MirrorFollowerPtr follower) {
  SPATE_CO_TRY(const wire::MirrorObeyReply accepts, co_await acceptance_.ask(*follower));
  if (accepts.verdict != wire::MirrorVerdict::kDone)
    co_return Error(Errc::kTryAgain, "the member does not accept this epoch yet");
  const bool lacks_all = (accepts.flags & wire::BeaconAnswer::kLacksAll) != 0;
  // All changes that begin from now on reach it; those before are noted here.
  follower->follows = true;
  if (planted(Defect::kJoiningServes)) co_return Result<void>();
  if (!planted(Defect::kFencesNotCopied)) {
    SPATE_CO_TRY(std::ignore, co_await tell_fences(*follower));
  }
  MirrorCopier::Regions regions;
  std::optional<ChangedRegion> after;
  for (std::vector<ChangedRegion> page = group_.log.page(after, kPage); !page.empty();
       page = group_.log.page(after, kPage)) {
    for (const ChangedRegion& region : page) regions[region.datafile].push_back(region);
    after = page.back();
  }
  if (!planted(Defect::kReturnerForgotten)) {
    SPATE_CO_TRY(std::ignore, co_await collect_records(*follower, regions));
  }
  if (lacks_all) {
    SPATE_CO_TRY(std::ignore, co_await collect_all(regions));
  }
  std::set<DatafileId> renewed = renewed_[follower->target];
  SPATE_CO_TRY(std::ignore, co_await collect_renewed(renewed, regions));
  for (auto& [datafile, of] : regions) simplify(of);
  SPATE_LOG("server/io", info, "a member of a group returns group={} target={} datafiles={}", group_.id,
            follower->target, regions.size());
  SPATE_CO_TRY(std::ignore, co_await copier_.copy_all(follower, regions));
  SPATE_CO_TRY(std::ignore, co_await copier_.reserve_all(follower, regions));
  // No note would make it receive them again if its machine lost power.
  SPATE_CO_TRY(std::ignore, co_await copier_.sync_all(follower, renewed));
  renewed_.erase(follower->target);
  co_return Result<void>();
}

/// Leaves out those that this member does not have any more: the copy of the other one stays.
job::Task<Result<void>> MemberReturn::collect_renewed(std::set<DatafileId>& datafiles, MirrorCopier::Regions& regions) {
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  for (auto at = datafiles.begin(); at != datafiles.end();) {
    SPATE_CO_TRY(const auto stat, co_await stat_datafile(group_.target, background, *at, {}));
    if (stat.change_counter == 0) {
      at = datafiles.erase(at);
    } else {
      regions[*at].assign(1, ChangedRegion{*at, true, 0});
      ++at;
    }
  }
  co_return Result<void>();
}

/// Adds the regions that the returning member has noted: it may be the only one that has changed them.
job::Task<Result<void>> MemberReturn::collect_records(MirrorFollower& follower, MirrorCopier::Regions& regions) {
  wire::MirrorRecordsRequest request;
  request.group = group_.id;
  for (bool more = true; more;) {
    request.epoch = group_.record.epoch;
    rpc::CallOptions options;
    options.deadline = parts_.executor.now() + host_.timing().copy_message;
    options.reply_room = kRecordsRoom;
    options.stop = follower.gone;
    SPATE_CO_TRY(const auto reply, co_await host_.peers().call<wire::MirrorRecordsReply>(
                                       follower.server, MirrorPeers::Lane::kData, request, options));
    if (reply.verdict != wire::MirrorVerdict::kDone)
      co_return Error(Errc::kTryAgain, "the member accepts another epoch");
    for (const wire::MirrorRegion& region : reply.regions) {
      const DatafileId datafile{region.handle, region.slot};
      regions[datafile].push_back({datafile, region.to_the_end, region.region});
    }
    more = reply.more && !reply.regions.empty();
    if (more) request.after = reply.regions.back();
  }
  co_return Result<void>();
}

job::Task<Result<void>> MemberReturn::collect_all(MirrorCopier::Regions& regions) {
  for (DatafileId after;;) {
    SPATE_CO_TRY(const std::vector<DatafileId> page, co_await group_.log.list(after, kPage));
    for (const DatafileId& datafile : page) regions[datafile].assign(1, ChangedRegion{datafile, true, 0});
    if (page.empty()) co_return Result<void>();
    after = page.back();
  }
}

job::Task<Result<void>> MemberReturn::tell_fences(MirrorFollower& follower) {
  wire::MirrorFencesRequest request;
  request.group = group_.id;
  for (ClientId after;;) {
    SPATE_CO_TRY(request.fences, co_await list_fences(parts_, after, kPage));
    if (request.fences.empty()) co_return Result<void>();
    after = request.fences.back().client;
    request.epoch = group_.record.epoch;
    rpc::CallOptions options;
    options.deadline = parts_.executor.now() + host_.timing().copy_message;
    options.stop = follower.gone;
    SPATE_CO_TRY(const auto reply, co_await host_.peers().call<wire::MirrorFencesReply>(
                                       follower.server, MirrorPeers::Lane::kData, request, options));
    if (reply.verdict != wire::MirrorVerdict::kDone || reply.status != Errc::kOk)
      co_return Error(Errc::kTryAgain, "the member has not taken the fences");
  }
}

}  // namespace spate::io
