// SPDX-License-Identifier: Apache-2.0
// A member returns: it gets all changes from now on, and a copy of whatever changed while it was absent.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "job/run_all.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/io/mirror/reign.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr Duration kReturnPause = std::chrono::seconds(1);
constexpr std::uint32_t kRecordsRoom = 256 * 1024;  // of a reply
constexpr std::size_t kPage = 4096;
constexpr std::size_t kBatch = 1024;         // copies that wait for their turn
constexpr std::uint64_t kPiece = 64 * 1024;  // of a region: it is data or a hole

bool is_zero(ByteView data) {
  return data.empty() || (data[0] == std::byte{0} && std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0);
}

}  // namespace

job::Task<void> Reign::let_return(MirrorFollowerPtr follower) {
  const job::Gate::Holder in(gate_);
  follower->returns = true;
  follower->failed = false;
  MirrorHost::Alteration joining;
  joining.members.push_back({follower->target, MemberState::kJoining});
  co_await host_.alter(group_, std::move(joining), stopping_);
  Result<void> done = Errc::kCancelled;
  if (follower->state == MemberState::kJoining) done = co_await catch_up(follower);
  if (stopping_.stopped() || follower->gone.stopped()) co_return;
  follower->returns_from = parts_.executor.now() + kReturnPause;
  MirrorHost::Alteration outcome;
  if (done && !follower->failed) {
    follower->promoted = true;  // changes wait for it from now on: it may serve as soon as the record says so
    outcome.members.push_back({follower->target, MemberState::kServing});
  } else {
    SPATE_LOG("server/io", warn, "a member of a group has not returned, it tries again group={} target={} error={}",
              group_.id, follower->target, done ? Error(Errc::kIoError) : done.error());
    outcome.members.push_back({follower->target, MemberState::kAbsent});
  }
  co_await host_.alter(group_, std::move(outcome), stopping_);
  follower->promoted = false;
  follower->returns = false;
  if (done && follower->state == MemberState::kServing)
    SPATE_LOG("server/io", info, "a member of a group has returned group={} target={}", group_.id, follower->target);
}

job::Task<Result<void>> Reign::catch_up(MirrorFollowerPtr follower) {
  SPATE_CO_TRY(const wire::MirrorObeyReply obeys, co_await ask_to_obey(*follower));
  if (obeys.verdict != wire::MirrorVerdict::kDone) co_return Error(Errc::kTryAgain, "the member does not obey yet");
  const bool lacks_all = (obeys.flags & wire::BeaconAnswer::kLacksAll) != 0;
  // All changes that begin from now on reach it; those before are noted here.
  follower->follows = true;
  if (planted(Defect::kJoiningServes)) co_return Result<void>();
  if (!planted(Defect::kFencesNotCopied)) {
    SPATE_CO_TRY(std::ignore, co_await tell_fences(*follower));
  }
  Regions regions;
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
  SPATE_LOG("server/io", info, "a member of a group returns group={} target={} datafiles={}", group_.id,
            follower->target, regions.size());
  auto copied = co_await copy_all(follower, regions);
  co_return copied;
}

/// Several datafiles at a time.
job::Task<Result<void>> Reign::copy_all(MirrorFollowerPtr follower, const Regions& regions) {
  to_copy_ = 0;
  for (const auto& [datafile, of] : regions) to_copy_ += of.size();
  for (auto at = regions.begin(); at != regions.end();) {
    std::vector<job::Task<Result<void>>> tasks;
    for (; at != regions.end() && tasks.size() < kBatch; ++at)
      tasks.push_back(copy_returned(follower, at->first, at->second));
    job::StopSource siblings;
    SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks), siblings));
  }
  to_copy_ = 0;
  co_return Result<void>();
}

job::Task<Result<void>> Reign::copy_returned(MirrorFollowerPtr follower, DatafileId datafile,
                                             const std::vector<ChangedRegion>& regions) {
  Result<void> copied = co_await copy_datafile(datafile, regions, follower);
  if (copied && (follower->failed || !counts(*follower)))
    copied = Error(Errc::kIoError, "the member has missed a change");
  co_return copied;
}

/// Adds the regions that the returning member has noted: it may be the only one that has changed them.
job::Task<Result<void>> Reign::collect_records(MirrorFollower& follower, Regions& regions) {
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
    if (reply.verdict != wire::MirrorVerdict::kDone) co_return Error(Errc::kTryAgain, "the member obeys another epoch");
    for (const wire::MirrorRegion& region : reply.regions) {
      const DatafileId datafile{region.handle, region.slot};
      regions[datafile].push_back({datafile, region.to_the_end, region.region});
    }
    more = reply.more && !reply.regions.empty();
    if (more) request.after = reply.regions.back();
  }
  co_return Result<void>();
}

job::Task<Result<void>> Reign::collect_all(Regions& regions) {
  for (DatafileId after;;) {
    SPATE_CO_TRY(const std::vector<DatafileId> page, co_await group_.log.list(after, kPage));
    for (const DatafileId& datafile : page) regions[datafile].assign(1, ChangedRegion{datafile, true, 0});
    if (page.empty()) co_return Result<void>();
    after = page.back();
  }
}

job::Task<Result<void>> Reign::tell_fences(MirrorFollower& follower) {
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

/// Makes the datafile equal at one member, or (`only` null) at all. For one member, each region is locked while it is
/// copied; for all, the caller has locked the whole datafile.
job::Task<Result<void>> Reign::copy_datafile(DatafileId datafile, const std::vector<ChangedRegion>& regions,
                                             MirrorFollowerPtr only) {
  std::vector<Extent> pieces;
  for (const ChangedRegion& region : regions) {
    const std::uint64_t begin = region.region * ChangedRegion::kBytes;
    if (!region.to_the_end) pieces.push_back({begin, ChangedRegion::kBytes});
  }
  SPATE_CO_TRY(std::ignore, co_await copy_pieces(datafile, std::move(pieces), only));
  for (const ChangedRegion& region : regions) {
    if (!region.to_the_end) continue;
    SPATE_CO_TRY(std::ignore, co_await copy_from(datafile, region.region * ChangedRegion::kBytes, only));
    if (only != nullptr) note_copied(1);
  }
  auto settled = co_await settle(datafile, only);
  co_return settled;
}

/// To a member that returns, several at a time. To all, one after the other: nobody may wait for a turn of the pace
/// while the datafile is locked.
job::Task<Result<void>> Reign::copy_pieces(DatafileId datafile, std::vector<Extent> pieces, MirrorFollowerPtr only) {
  for (std::size_t i = 0; i < pieces.size();) {
    std::vector<job::Task<Result<void>>> tasks;
    const std::size_t at_once = only == nullptr ? 1 : kBatch;
    for (; i < pieces.size() && tasks.size() < at_once; ++i) tasks.push_back(copy_range(datafile, pieces[i], only));
    job::StopSource siblings;
    SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks), siblings));
  }
  co_return Result<void>();
}

job::Task<Result<void>> Reign::copy_from(DatafileId datafile, std::uint64_t offset, MirrorFollowerPtr only) {
  trove::BytestreamRequest look;
  look.op = trove::BytestreamOp::kDataRanges;
  look.id = datafile;
  look.max_ranges = 256;
  if (only != nullptr) {
    // After the cut the member has only data that is copied to it. It does not serve, so nobody reads it meanwhile.
    const RangeLocks::Range whole;
    SPATE_CO_TRY(const RangeLocks::Hold hold, co_await locks_.take(datafile, whole, stopping_));
    const Running running(*this);
    wire::MirrorForwardRequest cut = message(datafile, wire::MirrorChange::kTruncate);
    cut.number = running.number();
    cut.size = offset;
    SPATE_CO_TRY(std::ignore, co_await tell(cut, {}, only));
  }
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  for (look.size = offset;;) {
    SPATE_CO_TRY(const auto found, co_await run_op(group_.target, background, look, {}));
    if (only != nullptr && look.size == offset && found.stat.size > offset)
      to_copy_ += (found.stat.size - offset) / ChangedRegion::kBytes;  // it counts as one region until now
    std::uint64_t at = look.size;
    std::vector<Extent> pieces;
    for (const Extent& data : found.ranges) {
      SPATE_CO_TRY(std::ignore, co_await copy_hole(datafile, at, data.offset, only));
      for (std::uint64_t done = 0; done < data.size; done += ChangedRegion::kBytes)
        pieces.push_back({data.offset + done, std::min(data.size - done, ChangedRegion::kBytes)});
      at = data.offset + data.size;
    }
    SPATE_CO_TRY(std::ignore, co_await copy_pieces(datafile, std::move(pieces), only));
    const bool last = found.complete_to >= trove::kMaxDatafileBytes || found.complete_to <= look.size;
    SPATE_CO_TRY(
        std::ignore,
        co_await copy_hole(datafile, at, std::min(found.stat.size, last ? found.stat.size : found.complete_to), only));
    if (last) co_return Result<void>();
    look.size = found.complete_to;
  }
}

/// Only for members that serve: a returning member was cut, and has no data there.
job::Task<Result<void>> Reign::copy_hole(DatafileId datafile, std::uint64_t begin, std::uint64_t end,
                                         MirrorFollowerPtr only) {
  if (only != nullptr || begin >= end) co_return Result<void>();
  const Running running(*this);
  wire::MirrorForwardRequest punch = message(datafile, wire::MirrorChange::kPunch);
  punch.number = running.number();
  punch.extents.push_back({begin, end - begin});
  auto told = co_await tell(punch, {}, only);
  co_return told;
}

job::Task<Result<void>> Reign::copy_range(DatafileId datafile, Extent range, MirrorFollowerPtr only) {
  job::Semaphore::Units turn;
  RangeLocks::Hold hold;
  if (only != nullptr) {
    SPATE_CO_TRY(turn, co_await host_.pace().turn(stopping_));
    if (only->failed || !counts(*only)) co_return Error(Errc::kIoError, "the member has missed a change");
    const RangeLocks::Range bytes{range.offset, range.offset + range.size};
    SPATE_CO_TRY(hold, co_await locks_.take(datafile, bytes, stopping_));
  }
  Bytes content(range.size);
  const MutableByteView memory(content);
  trove::BytestreamRequest read;
  read.op = trove::BytestreamOp::kRead;
  read.id = datafile;
  read.extents = {&range, 1};
  read.memory = {&memory, 1};
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  SPATE_CO_TRY(const auto got, co_await run_op(group_.target, background, read, {}));
  wire::MirrorForwardRequest write = message(datafile, wire::MirrorChange::kWrite);
  wire::MirrorForwardRequest punch = message(datafile, wire::MirrorChange::kPunch);
  Bytes data;
  for (std::uint64_t at = 0; at < got.bytes; at += kPiece) {
    const ByteView piece = ByteView(content).subspan(at, std::min(kPiece, got.bytes - at));
    if (is_zero(piece)) {
      punch.extents.push_back({range.offset + at, piece.size()});
    } else {
      write.extents.push_back({range.offset + at, piece.size()});
      data.insert(data.end(), piece.begin(), piece.end());
    }
  }
  for (wire::MirrorForwardRequest* const request : {&write, &punch}) {
    if (request->extents.empty()) continue;
    const Running running(*this);
    request->number = running.number();
    const ByteView of_write = request == &write ? ByteView(data) : ByteView();
    SPATE_CO_TRY(std::ignore, co_await tell(*request, of_write, only));
  }
  if (only != nullptr) host_.pace().copied(data.size());
  if (only != nullptr) note_copied(1);
  co_return Result<void>();
}

/// Makes the datafile's end, counters and tombstone equal, once its content is.
job::Task<Result<void>> Reign::settle(DatafileId datafile, MirrorFollowerPtr only) {
  RangeLocks::Hold hold;
  if (only != nullptr) {
    const RangeLocks::Range whole;
    SPATE_CO_TRY(hold, co_await locks_.take(datafile, whole, stopping_));
  }
  const DatafileKey key{group_.self, datafile};
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(group_.target, background, datafile, {}));
  const DatafileTable::Use entry = parts_.datafiles.use(key);
  SPATE_CO_TRY(const bool removed, co_await is_removed(parts_, *entry));
  const bool missing = stat.change_counter == 0;
  wire::MirrorForwardRequest request =
      message(datafile, missing ? wire::MirrorChange::kRemove : wire::MirrorChange::kSettle);
  if (missing && removed) request.time = *entry->tombstone;
  if (!missing) {
    SPATE_CO_TRY(request.truncate_generation, co_await load_truncate(parts_, key));
    request.size = stat.size;
    request.counter = stat.change_counter;
    request.time = stat.mtime;
  }
  const Running running(*this);
  request.number = running.number();
  auto told = co_await tell(request, {}, only);
  co_return told;
}

}  // namespace spate::io
