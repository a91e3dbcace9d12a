// SPDX-License-Identifier: Apache-2.0
// MirrorCopier: makes the members' copies of datafiles equal (docs/availability.md, "Mirrored data").
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "server/io/mirror/forwarder.h"
#include "server/io/mirror/range_locks.h"

namespace spate::io {

/// Copies what the primary's datafiles hold to other members. Each copy is sent as a change, in order with the changes
/// of clients.
///
/// It lives as long as its term, and its tasks end early when the term ends. One executor; pinned. The arguments of the
/// constructor must outlive the object.
class MirrorCopier {
 public:
  using Regions = std::map<DatafileId, std::vector<ChangedRegion>>;

  MirrorCopier(MirrorHost& host, MirrorGroup& group, RangeLocks& locks, Forwarder& forwarder,
               job::StopSource& stopping);
  MirrorCopier(const MirrorCopier&) = delete;
  MirrorCopier& operator=(const MirrorCopier&) = delete;

  /// Copies the regions to a returning member, several datafiles at a time. Fails if the member misses a change.
  job::Task<Result<void>> copy_all(MirrorFollowerPtr follower, const Regions& regions);
  /// Reserves space in these regions at a member that has got them by copy_all(), where this member has space for all
  /// of a datafile. Local file systems do not say for which part of one they have space, so others are left sparse. A
  /// member without room for it stays as it is.
  job::Task<Result<void>> reserve_all(MirrorFollowerPtr follower, const Regions& regions);
  /// Makes the copies of these datafiles durable at a returning member.
  job::Task<Result<void>> sync_all(MirrorFollowerPtr follower, const std::set<DatafileId>& datafiles);
  /// Makes the datafile equal at one member, or (`only` null) at all. For one member, each region is locked while it is
  /// copied; for all, the caller has locked the whole datafile.
  job::Task<Result<void>> copy_datafile(DatafileId datafile, const std::vector<ChangedRegion>& regions,
                                        MirrorFollowerPtr only);
  /// Makes these bytes, and the datafile's end, equal at all members. The caller has locked the whole datafile.
  job::Task<Result<void>> copy_to_all(DatafileId datafile, Extent bytes);
  /// How many regions copy_all() has still to copy.
  std::uint64_t left() const { return left_; }

 private:
  job::Task<Result<void>> copy_returned(MirrorFollowerPtr follower, DatafileId datafile,
                                        const std::vector<ChangedRegion>& regions);
  job::Task<Result<void>> reserve_returned(MirrorFollowerPtr follower, DatafileId datafile,
                                           const std::vector<ChangedRegion>& regions);
  job::Task<Result<void>> reserve(MirrorFollowerPtr follower, DatafileId datafile,
                                  const std::vector<ChangedRegion>& regions);
  job::Task<Result<void>> reserve_piece(MirrorFollowerPtr follower, DatafileId datafile, Extent piece);
  job::Task<Result<void>> sync_returned(MirrorFollowerPtr follower, DatafileId datafile);
  job::Task<Result<void>> copy_pieces(DatafileId datafile, std::vector<Extent> pieces, MirrorFollowerPtr only);
  job::Task<Result<void>> copy_from(DatafileId datafile, std::uint64_t offset, MirrorFollowerPtr only);
  job::Task<Result<void>> copy_hole(DatafileId datafile, std::uint64_t begin, std::uint64_t end,
                                    MirrorFollowerPtr only);
  job::Task<Result<void>> copy_range(DatafileId datafile, Extent range, MirrorFollowerPtr only);
  job::Task<Result<void>> settle(DatafileId datafile, MirrorFollowerPtr only);
  void note_copied(std::uint64_t regions) { left_ -= std::min(left_, regions); }

  Parts& parts_;
  MirrorHost& host_;
  MirrorGroup& group_;
  RangeLocks& locks_;
  Forwarder& forwarder_;
  job::StopSource& stopping_;
  std::uint64_t left_ = 0;
};

}  // namespace spate::io
