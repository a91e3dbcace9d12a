// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/copier.h"

#include <cstring>
#include <utility>

#include "job/run_all.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr std::size_t kBatch = 1024;  // copies that wait for their turn
/// Pieces of a region are data or holes. To a member that serves, a hole is sent for each piece of zeros that may be
/// one in its copy: a copy on a full device could not take zeros in its place. 1 KiB is the smallest block of ext4.
constexpr std::uint64_t kPiece = 1024;
/// Local file systems give space in such pages mostly.
constexpr std::uint64_t kSpacePage = 4096;
/// A member that returns gets fewer and larger pieces.
constexpr std::uint64_t kPieceOfReturn = 64 * 1024;
/// Bytes that a member reserves with one request: tmpfs fills reserved space with zeros, and nobody may take it for
/// hung.
constexpr std::uint64_t kReservedAtOnce = std::uint64_t{64} << 20U;

/// Appends the range to `ranges`, or to the last one if it continues that one.
void append(std::vector<wire::MirrorRange>& ranges, wire::MirrorRange range) {
  if (!ranges.empty() && ranges.back().offset + ranges.back().size == range.offset) {
    ranges.back().size += range.size;
  } else {
    ranges.push_back(range);
  }
}

bool is_zero(ByteView data) {
  return data.empty() || (data[0] == std::byte{0} && std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0);
}

}  // namespace

MirrorCopier::MirrorCopier(MirrorHost& host, MirrorGroup& group, RangeLocks& locks, Forwarder& forwarder,
                           job::StopSource& stopping)
    : parts_(host.parts()), host_(host), group_(group), locks_(locks), forwarder_(forwarder), stopping_(stopping) {}

job::Task<Result<void>> MirrorCopier::copy_all(MirrorFollowerPtr follower, const Regions& regions) {
  left_ = 0;
  follower->sparse.clear();
  for (const auto& [datafile, of] : regions) left_ += of.size();
  for (auto at = regions.begin(); at != regions.end();) {
    std::vector<job::Task<Result<void>>> tasks;
    for (; at != regions.end() && tasks.size() < kBatch; ++at)
      tasks.push_back(copy_returned(follower, at->first, at->second));
    job::StopSource siblings;
    SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks), siblings));
  }
  left_ = 0;
  co_return Result<void>();
}

job::Task<Result<void>> MirrorCopier::reserve_all(MirrorFollowerPtr follower, const Regions& regions) {
  const std::set<DatafileId> sparse = std::exchange(follower->sparse, {});
  for (auto at = sparse.begin(); at != sparse.end();) {
    std::vector<job::Task<Result<void>>> tasks;
    for (; at != sparse.end() && tasks.size() < kBatch; ++at)
      tasks.push_back(reserve_returned(follower, *at, regions.at(*at)));
    job::StopSource siblings;
    SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks), siblings));
  }
  co_return Result<void>();
}

job::Task<Result<void>> MirrorCopier::reserve_returned(MirrorFollowerPtr follower, DatafileId datafile,
                                                       const std::vector<ChangedRegion>& regions) {
  auto reserved = co_await reserve(follower, datafile, regions);
  // It may have got a part of the space. The zeros that are copied give it back, since other files may need it.
  if (reserved.code() == Errc::kNoSpace) reserved = co_await copy_returned(follower, datafile, regions);
  if (!reserved && is_refusal(reserved.code())) co_return Result<void>();
  co_return reserved;
}

job::Task<Result<void>> MirrorCopier::reserve(MirrorFollowerPtr follower, DatafileId datafile,
                                              const std::vector<ChangedRegion>& regions) {
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(group_.target, background, datafile, {}));
  if (stat.allocated_bytes < stat.size) co_return Result<void>();
  std::vector<wire::MirrorRange> ranges;
  for (const ChangedRegion& region : regions) {
    const std::uint64_t begin = std::min(stat.size, region.region * ChangedRegion::kBytes);
    const std::uint64_t end = region.to_the_end ? stat.size : std::min(stat.size, begin + ChangedRegion::kBytes);
    if (begin < end) append(ranges, {begin, end - begin});
  }
  for (const wire::MirrorRange& range : ranges) {
    for (std::uint64_t done = 0; done < range.size; done += kReservedAtOnce) {
      const Extent piece{range.offset + done, std::min(range.size - done, kReservedAtOnce)};
      SPATE_CO_TRY(std::ignore, co_await reserve_piece(follower, datafile, piece));
    }
  }
  auto settled = co_await settle(datafile, follower);  // the change counter has moved
  co_return settled;
}

job::Task<Result<void>> MirrorCopier::reserve_piece(MirrorFollowerPtr follower, DatafileId datafile, Extent piece) {
  const RangeLocks::Range bytes{piece.offset, piece.offset + piece.size};
  SPATE_CO_TRY(const RangeLocks::Hold hold, co_await locks_.take(datafile, bytes, stopping_));
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(group_.target, background, datafile, {}));
  // may have changed
  if (stat.allocated_bytes < stat.size || stat.size < piece.offset + piece.size) co_return Result<void>();
  const Forwarder::Running running(forwarder_);
  wire::MirrorForwardRequest request = forwarder_.message(datafile, wire::MirrorChange::kAllocate);
  request.number = running.number();
  request.extents.push_back({piece.offset, piece.size});
  auto told = co_await forwarder_.tell_copy(request, {}, follower, Refusal::kFailsAlways);
  co_return told;
}

job::Task<Result<void>> MirrorCopier::sync_all(MirrorFollowerPtr follower, const std::set<DatafileId>& datafiles) {
  for (auto at = datafiles.begin(); at != datafiles.end();) {
    std::vector<job::Task<Result<void>>> tasks;
    for (; at != datafiles.end() && tasks.size() < kBatch; ++at) tasks.push_back(sync_returned(follower, *at));
    job::StopSource siblings;
    SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks), siblings));
  }
  co_return Result<void>();
}

job::Task<Result<void>> MirrorCopier::sync_returned(MirrorFollowerPtr follower, DatafileId datafile) {
  const Forwarder::Running running(forwarder_);
  wire::MirrorForwardRequest request = forwarder_.message(datafile, wire::MirrorChange::kSync);
  request.number = running.number();
  auto told = co_await forwarder_.tell_copy(request, {}, follower);
  co_return told;
}

job::Task<Result<void>> MirrorCopier::copy_returned(MirrorFollowerPtr follower, DatafileId datafile,
                                                    const std::vector<ChangedRegion>& regions) {
  Result<void> copied = co_await copy_datafile(datafile, regions, follower);
  if (copied && (follower->failed || !forwarder_.counts(*follower)))
    copied = Error(Errc::kIoError, "the member has missed a change");
  co_return copied;
}

job::Task<Result<void>> MirrorCopier::copy_datafile(DatafileId datafile, const std::vector<ChangedRegion>& regions,
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

job::Task<Result<void>> MirrorCopier::copy_to_all(DatafileId datafile, Extent bytes) {
  const std::uint64_t end = (bytes.offset + bytes.size + kSpacePage - 1) / kSpacePage * kSpacePage;
  std::vector<Extent> pieces;
  for (std::uint64_t at = bytes.offset / kSpacePage * kSpacePage; at < end && bytes.size > 0;
       at += ChangedRegion::kBytes)
    pieces.push_back({at, std::min(end - at, ChangedRegion::kBytes)});
  SPATE_CO_TRY(std::ignore, co_await copy_pieces(datafile, std::move(pieces), nullptr));
  auto settled = co_await settle(datafile, nullptr);
  co_return settled;
}

/// To a member that returns, several at a time. To all, one after the other: nobody may wait for a turn of the pace
/// while the datafile is locked.
job::Task<Result<void>> MirrorCopier::copy_pieces(DatafileId datafile, std::vector<Extent> pieces,
                                                  MirrorFollowerPtr only) {
  for (std::size_t i = 0; i < pieces.size();) {
    std::vector<job::Task<Result<void>>> tasks;
    const std::size_t at_once = only == nullptr ? 1 : kBatch;
    for (; i < pieces.size() && tasks.size() < at_once; ++i) tasks.push_back(copy_range(datafile, pieces[i], only));
    job::StopSource siblings;
    SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_.executor, std::move(tasks), siblings));
  }
  co_return Result<void>();
}

job::Task<Result<void>> MirrorCopier::copy_from(DatafileId datafile, std::uint64_t offset, MirrorFollowerPtr only) {
  trove::BytestreamRequest look;
  look.op = trove::BytestreamOp::kDataRanges;
  look.id = datafile;
  look.max_ranges = 256;
  if (only != nullptr) {
    // After the cut the member has only data that is copied to it. It does not serve, so nobody reads it meanwhile.
    const RangeLocks::Range whole;
    SPATE_CO_TRY(const RangeLocks::Hold hold, co_await locks_.take(datafile, whole, stopping_));
    const Forwarder::Running running(forwarder_);
    wire::MirrorForwardRequest cut = forwarder_.message(datafile, wire::MirrorChange::kTruncate);
    cut.number = running.number();
    cut.size = offset;
    SPATE_CO_TRY(std::ignore, co_await forwarder_.tell_copy(cut, {}, only));
  }
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  for (look.size = offset;;) {
    SPATE_CO_TRY(const auto found, co_await run_op(group_.target, background, look, {}));
    if (only != nullptr && look.size == offset && found.stat.size > offset)
      left_ += (found.stat.size - offset) / ChangedRegion::kBytes;  // it counts as one region until now
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

/// Sent only to members that serve: a returning member was cut, and has no data there.
job::Task<Result<void>> MirrorCopier::copy_hole(DatafileId datafile, std::uint64_t begin, std::uint64_t end,
                                                MirrorFollowerPtr only) {
  if (begin >= end) co_return Result<void>();
  if (only != nullptr) {
    only->sparse.insert(datafile);
    co_return Result<void>();
  }
  const Forwarder::Running running(forwarder_);
  wire::MirrorForwardRequest punch = forwarder_.message(datafile, wire::MirrorChange::kPunch);
  punch.number = running.number();
  punch.extents.push_back({begin, end - begin});
  auto told = co_await forwarder_.tell_copy(punch, {}, only);
  co_return told;
}

job::Task<Result<void>> MirrorCopier::copy_range(DatafileId datafile, Extent range, MirrorFollowerPtr only) {
  job::Semaphore::Units turn;
  RangeLocks::Hold hold;
  if (only != nullptr) {
    SPATE_CO_TRY(turn, co_await host_.pace().turn(stopping_));
    if (only->failed || !forwarder_.counts(*only)) co_return Error(Errc::kIoError, "the member has missed a change");
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
  wire::MirrorForwardRequest write = forwarder_.message(datafile, wire::MirrorChange::kWrite);
  wire::MirrorForwardRequest punch = forwarder_.message(datafile, wire::MirrorChange::kPunch);
  Bytes data;
  const std::uint64_t most = only == nullptr ? kPiece : kPieceOfReturn;
  for (std::uint64_t at = 0; at < got.bytes; at += most) {
    const ByteView piece = ByteView(content).subspan(at, std::min(most, got.bytes - at));
    if (is_zero(piece)) {
      append(punch.extents, {range.offset + at, piece.size()});
    } else {
      append(write.extents, {range.offset + at, piece.size()});
      data.insert(data.end(), piece.begin(), piece.end());
    }
  }
  if (only != nullptr && !punch.extents.empty()) only->sparse.insert(datafile);
  for (wire::MirrorForwardRequest* const request : {&punch, &write}) {  // the holes make room
    if (request->extents.empty()) continue;
    const Forwarder::Running running(forwarder_);
    request->number = running.number();
    const ByteView of_write = request == &write ? ByteView(data) : ByteView();
    SPATE_CO_TRY(std::ignore, co_await forwarder_.tell_copy(*request, of_write, only));
  }
  if (only != nullptr) host_.pace().copied(data.size());
  if (only != nullptr) note_copied(1);
  co_return Result<void>();
}

/// Makes the datafile's end, counters and tombstone equal, once its content is.
job::Task<Result<void>> MirrorCopier::settle(DatafileId datafile, MirrorFollowerPtr only) {
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
      forwarder_.message(datafile, missing ? wire::MirrorChange::kRemove : wire::MirrorChange::kSettle);
  if (missing && removed) request.time = *entry->tombstone;
  if (!missing) {
    SPATE_CO_TRY(request.truncate_generation, co_await load_truncate(parts_, key));
    request.size = stat.size;
    request.counter = stat.change_counter;
    request.time = stat.mtime;
  }
  const Forwarder::Running running(forwarder_);
  request.number = running.number();
  auto told = co_await forwarder_.tell_copy(request, {}, only);
  co_return told;
}

}  // namespace spate::io
