// SPDX-License-Identifier: Apache-2.0
// MemberReturn: lets an absent member serve again (docs/availability.md, "Mirrored data").
#pragma once

#include <map>
#include <set>

#include "server/io/mirror/copier.h"
#include "server/io/mirror/member_acceptance.h"

namespace spate::io {

/// A returning member joins: it gets all changes from now on, and a copy of whatever changed while it was absent. Then
/// it serves. After a failure it is absent again, and the next try waits for a while.
///
/// It lives as long as its term, and its tasks end early when `stopping` fires. Any number of members return at once.
/// One executor; pinned. The arguments of the constructor must outlive the object.
class MemberReturn {
 public:
  /// `gate` holds what is under way.
  MemberReturn(MirrorHost& host, MirrorGroup& group, MemberAcceptance& acceptance, MirrorCopier& copier,
               job::StopSource& stopping, job::Gate& gate);
  MemberReturn(const MemberReturn&) = delete;
  MemberReturn& operator=(const MemberReturn&) = delete;

  /// Ends when the member serves, or is absent again.
  job::Task<void> run(MirrorFollowerPtr follower);
  /// When this member returns next, in this term, it receives all of these datafiles.
  void renew(TargetId member, std::set<DatafileId> datafiles) { renewed_[member].merge(datafiles); }

 private:
  job::Task<Result<void>> catch_up(MirrorFollowerPtr follower);
  job::Task<Result<void>> tell_fences(MirrorFollower& follower);
  job::Task<Result<void>> collect_records(MirrorFollower& follower, MirrorCopier::Regions& regions);
  job::Task<Result<void>> collect_all(MirrorCopier::Regions& regions);
  job::Task<Result<void>> collect_renewed(std::set<DatafileId>& datafiles, MirrorCopier::Regions& regions);

  Parts& parts_;
  MirrorHost& host_;
  MirrorGroup& group_;
  MemberAcceptance& acceptance_;
  MirrorCopier& copier_;
  job::StopSource& stopping_;
  job::Gate& gate_;
  std::map<TargetId, std::set<DatafileId>> renewed_;  // of members that have not returned yet
};

}  // namespace spate::io
