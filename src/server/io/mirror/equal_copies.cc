// SPDX-License-Identifier: Apache-2.0
// A primary makes the copies of a datafile equal after a change that has failed on some members.
#include "server/io/mirror/primary_term.h"

namespace spate::io {

/// It takes no room that a member lacks: a byte that is not zero has its place in each copy already, since the copies
/// were equal before or the member has made the whole change. Zeros that may be a hole are sent as one (MirrorCopier).
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
    // This member cannot say what the others lack. They become absent, and their return mends their copies.
    for (const auto& [target, follower] : std::map<TargetId, MirrorFollowerPtr>(forwarder_.followers())) {
      if (forwarder_.counts(*follower)) co_await forwarder_.evict(follower, "its copy cannot be made equal");
    }
  }
}

}  // namespace spate::io
