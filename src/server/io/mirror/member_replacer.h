// SPDX-License-Identifier: Apache-2.0
// MemberReplacer: has targets of other servers take the places of members that stay away (docs/availability.md).
#pragma once

#include "job/gate.h"
#include "job/stop.h"
#include "log/rate_limit.h"
#include "server/io/mirror/forwarder.h"
#include "wire/io_messages.h"

namespace spate::io {

/// Replaces members of the groups that this server leads, one at a time. Only an absent member is replaced, so nothing
/// that was acknowledged depends on it. The new member is absent at first: it joins as one that lacks everything.
///
/// A server may have been a member before, and have missed its own replacement. Its notes of that time must not count:
/// they name changes that were forgotten since. So the primary asks the server first. When the
/// server has answered, either it has durably accepted a record that does not name it, or it knows nothing of the
/// group.
///
/// A part of Mirrors, with its life cycle: a task runs in the gate that look() is given. One executor; pinned. The host
/// outlives it.
class MemberReplacer {
  /// The space that a copy of a group takes. The files on the primary's whole device take no less.
  struct CopySize {
    std::uint64_t bytes = 0;
    std::uint64_t files = 0;
    bool exact = false;  // false: an upper bound, which costs nothing
  };

 public:
  explicit MemberReplacer(MirrorHost& host);
  MemberReplacer(const MemberReplacer&) = delete;
  MemberReplacer& operator=(const MemberReplacer&) = delete;

  /// Begins to replace the member if it has been absent for IoOptions::rebuild_after, and no other replacement is under
  /// way. The caller leads the group. `stop` ends the task early.
  void look(MirrorGroup& group, const MirrorFollowerPtr& follower, job::Gate& gate, job::StopToken stop);

 private:
  static bool has_room(const wire::TargetSpace& space, const CopySize& size);
  job::Task<Result<void>> measure(MirrorGroup& group, CopySize& size, job::StopToken stop);
  job::Task<void> replace(MirrorGroup& group, MirrorFollowerPtr follower, job::StopToken stop);
  /// The candidate, or another target of its server, that has room for a copy of the group. Nothing: none has, or the
  /// server does not say.
  job::Task<std::optional<TargetId>> with_room(MirrorGroup& group, TargetId candidate, CopySize& size,
                                               job::StopToken stop);
  job::Task<Result<std::vector<wire::TargetSpace>>> space_of(ServerId server, job::StopToken stop);
  job::Task<bool> has_no_claim(const MirrorGroup& group, TargetId candidate, job::StopToken stop);

  MirrorHost& host_;
  job::Executor& executor_;
  bool busy_ = false;
  MonoTime next_;      // no replacement begins before
  MonoTime map_from_;  // the cluster map is not read before
  log::RateLimit log_;
};

}  // namespace spate::io
