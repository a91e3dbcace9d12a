// SPDX-License-Identifier: Apache-2.0
// A primary makes the copies of datafiles equal: where the previous term may have left a difference, and after a change
// that has failed on some members.
#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "server/io/mirror/primary_term.h"

namespace spate::io {
namespace {

constexpr Duration kAgain = std::chrono::milliseconds(50);

}  // namespace

/// If no other member serves, there is nothing to do: one that returns receives these regions, which are noted.
job::Task<void> PrimaryTerm::make_equal(const std::vector<ChangedRegion>& doubtful) {
  const auto counts = [this](const auto& entry) { return forwarder_.counts(*entry.second); };
  for (std::size_t i = 0; i < doubtful.size() && !stopping_.stopped();) {
    if (std::ranges::none_of(forwarder_.followers(), counts)) co_return;
    const std::vector<ChangedRegion> one(1, doubtful[i]);
    const RangeLocks::Range whole;
    const auto lock = co_await locks_.take(doubtful[i].datafile, whole, stopping_);
    if (!lock) co_return;
    const auto copied = co_await copier_.copy_datafile(doubtful[i].datafile, one, nullptr);
    if (copied) ++i;
    if (copied || stopping_.stopped()) continue;
    SPATE_LOG("server/io", warn, "the copies of a datafile are not made equal yet group={} error={}", group_.id,
              copied.error());
    if (copied.code() == Errc::kIoError) std::ignore = co_await read_failed(copied.code());
    std::ignore = co_await parts_.executor.sleep(kAgain, stopping_);
  }
}

/// It takes no room that a member lacks: a byte that is not zero has its place in each copy already, since the copies
/// were equal before or the member has made the whole change. Zeros that may be a hole are sent as one (MirrorCopier),
/// so nothing but the range is sent: other space of the datafile may be reserved. Others may change the range while
/// this waits for the whole datafile. Such changes are not lost, because they are made on all members.
job::Task<Result<void>> PrimaryTerm::mend(DatafileId datafile, RangeLocks::Range range) {
  for (;;) {
    const RangeLocks::Range whole;
    SPATE_CO_TRY(const RangeLocks::Hold hold, co_await locks_.take(datafile, whole, stopping_));
    const std::uint64_t bytes = range.end - range.begin;
    Result<void> copied;
    if (bytes > ChangeLog::kMostOfOneChange * ChangedRegion::kBytes) {
      const std::vector<ChangedRegion> rest{{datafile, true, range.begin / ChangedRegion::kBytes}};
      copied = co_await copier_.copy_datafile(datafile, rest, nullptr);
    } else {
      copied = co_await copier_.copy_to_all(datafile, Extent{range.begin, bytes});
    }
    if (copied || stopping_.stopped()) co_return copied;
    if (copied.code() == Errc::kIoError) co_return copied;
    // This member cannot say what the others lack. They become absent, and their return mends their copies.
    for (const auto& [target, follower] : std::map<TargetId, MirrorFollowerPtr>(forwarder_.followers())) {
      if (forwarder_.counts(*follower)) co_await forwarder_.evict(follower, "its copy cannot be made equal");
    }
  }
}

}  // namespace spate::io
