// SPDX-License-Identifier: Apache-2.0
#include "fsck/contents.h"

#include <algorithm>
#include <chrono>

#include "job/run_all.h"
#include "wire/check_messages.h"

namespace spate::fsck {
namespace {

constexpr std::uint64_t kAsked = 4 * wire::kDigestBytes;  // in one request: a slow disk reads it in time
constexpr Duration kReadPause = std::chrono::milliseconds(500);
constexpr int kMostReads = 12;
constexpr int kStill = 3;  // reads in a row at which nothing has changed

}  // namespace

job::Task<Result<void>> ContentComparison::read_one(const CopyPair& pair, TargetId target, Extent part,
                                                    Digests& digests) {
  const ServerId server = servers_.server_of(target);
  if (!server) co_return Errc::kStaleMap;
  wire::DatafileDigestRequest request;
  request.datafile = {pair.handle, {pair.slot, target}};
  request.offset = part.offset;
  request.size = part.size;
  SPATE_CO_TRY(auto reply, co_await servers_.ask_io<wire::DatafileDigestReply>(server, request));
  digests = std::move(reply.digests);
  co_return Result<void>();
}

/// Later reads begin when the rate allows these bytes.
job::Task<void> ContentComparison::wait_for_turn(std::uint64_t bytes) {
  if (rate_ == 0) co_return;
  const MonoTime begin = std::max(next_, servers_.executor().now());
  const double seconds = static_cast<double>(bytes) / static_cast<double>(rate_);
  next_ = begin + Duration(static_cast<std::int64_t>(seconds * 1e9));
  std::ignore = co_await servers_.executor().sleep_until(begin, {});
}

job::Task<Result<ContentComparison::Both>> ContentComparison::read_both(const CopyPair& pair, Extent part) {
  co_await wait_for_turn(part.size);
  Both both;
  std::vector<job::Task<Result<void>>> tasks;
  tasks.push_back(read_one(pair, pair.here, part, both.here));
  tasks.push_back(read_one(pair, pair.there, part, both.there));
  SPATE_CO_TRY(std::ignore, co_await job::run_all(servers_.executor(), std::move(tasks)));
  co_return both;
}

job::Task<Result<ContentComparison::Verdict>> ContentComparison::watch(const CopyPair& pair, Extent part) {
  SPATE_CO_TRY(Both before, co_await read_both(pair, part));
  int still = 0;
  for (int reads = 0; reads < kMostReads && still < kStill; ++reads) {
    if (before.here == before.there) co_return Verdict::kEqual;
    std::ignore = co_await servers_.executor().sleep(kReadPause, {});
    SPATE_CO_TRY(Both now, co_await read_both(pair, part));
    still = now == before ? still + 1 : 0;
    before = std::move(now);
  }
  co_return still < kStill ? Verdict::kChanging : Verdict::kUnequal;
}

job::Task<Result<std::optional<TargetId>>> ContentComparison::alike(CopyPair pair, Extent part, TargetId other) {
  std::optional<TargetId> found;
  CopyPair with_other = pair;
  with_other.there = other;
  SPATE_CO_TRY(const Both first, co_await read_both(with_other, part));
  if (first.here == first.there) found = pair.here;
  with_other.here = pair.there;
  SPATE_CO_TRY(const Both second, co_await read_both(with_other, part));
  if (second.here == second.there) found = pair.there;
  co_return found;
}

job::Task<Result<std::optional<Extent>>> ContentComparison::unequal_part(CopyPair pair, std::uint64_t size) {
  std::optional<Extent> found;
  for (std::uint64_t offset = 0; offset < size; offset += kAsked) {
    const Extent asked{offset, std::min(size - offset, kAsked)};
    SPATE_CO_TRY(const Both both, co_await read_both(pair, asked));
    const auto [here, there] = std::ranges::mismatch(both.here, both.there);
    if (here == both.here.end() && there == both.there.end()) continue;
    const std::uint64_t begin = offset + static_cast<std::uint64_t>(here - both.here.begin()) * wire::kDigestBytes;
    const Extent part{begin, std::min(size - begin, wire::kDigestBytes)};
    SPATE_CO_TRY(const Verdict verdict, co_await watch(pair, part));
    if (verdict == Verdict::kEqual) continue;
    if (verdict == Verdict::kChanging) ++undecided_;
    if (verdict == Verdict::kUnequal) found = part;
    break;
  }
  co_return found;
}

}  // namespace spate::fsck
