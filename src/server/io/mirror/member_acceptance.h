// SPDX-License-Identifier: Apache-2.0
// MemberAcceptance: makes the other members of a group accept its record (docs/availability.md, "Mirrored data").
#pragma once

#include "server/io/mirror/forwarder.h"
#include "wire/mirror_forward_messages.h"

namespace spate::io {

/// A member that accepts the record of an epoch takes nothing from earlier epochs any more.
///
/// It lives as long as its term, and its tasks end early when `stopping` fires. One executor; pinned. The arguments of
/// the constructor must outlive the object.
class MemberAcceptance {
 public:
  /// `term`: the number of the term. `gate` holds what is under way.
  MemberAcceptance(MirrorHost& host, MirrorGroup& group, std::uint64_t term, Forwarder& forwarder,
                   job::StopSource& stopping, job::Gate& gate);
  MemberAcceptance(const MemberAcceptance&) = delete;
  MemberAcceptance& operator=(const MemberAcceptance&) = delete;

  /// Asks the member once to accept the present record, and notes what its answer says.
  job::Task<Result<wire::MirrorObeyReply>> ask(MirrorFollower& follower);
  /// Asks until the member accepts the present record or is absent, or until the term ends.
  job::Task<void> ask_until_it_accepts(MirrorFollowerPtr follower);
  /// Waits until the primary before this one answers nobody any more. That is at `serves_from`, or earlier if it knows
  /// of this term.
  job::Task<void> wait_to_serve(MonoTime serves_from);

 private:
  job::Task<void> tell_term(MirrorFollowerPtr follower);

  Parts& parts_;
  MirrorHost& host_;
  MirrorGroup& group_;
  const std::uint64_t term_;
  Forwarder& forwarder_;
  job::StopSource& stopping_;
  job::Gate& gate_;
};

}  // namespace spate::io
