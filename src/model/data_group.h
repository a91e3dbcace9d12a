// SPDX-License-Identifier: Apache-2.0
// DataGroup: the targets that keep the same datafiles (docs/architecture.md, "Mirrored data").
#pragma once

#include <cstdint>
#include <vector>

#include "base/codec.h"
#include "base/result.h"
#include "model/cluster_map.h"
#include "model/ids.h"
#include "model/layout.h"

namespace spate {

/// The number of a group is a TargetId from here on. Numbers below are targets.
constexpr TargetId kFirstGroup{1U << 24U};
static_assert(target_id(ServerId(kMaxServerId), kMaxTargetsPerServer - 1) < kFirstGroup);

/// Whether a slot of a layout names a group rather than a target.
constexpr bool is_group(TargetId id) { return id >= kFirstGroup; }

/// Stored and sent; never renumbered.
enum class MemberState : std::uint8_t {
  kServing = 1,  // has everything that was acknowledged; nothing is acknowledged without it
  kJoining = 2,  // receives all changes, and is being given what it lacks; nothing depends on it
  kAbsent = 3,   // receives nothing; the others remember what it misses
};

struct GroupMember {
  TargetId target;  // a target, no group
  MemberState state = MemberState::kServing;
  friend bool operator==(const GroupMember&, const GroupMember&) = default;
};

constexpr std::uint64_t kHistory = std::uint64_t{1} << 32U;

/// The record of a group. The meta server keeps it; members ask for its changes (check_change()).
struct DataGroup {
  TargetId id;                       // >= kFirstGroup
  std::uint64_t epoch = 1;           // rises by one with each change
  TargetId primary;                  // a serving member: it orders all changes, and answers reads
  std::vector<GroupMember> members;  // 2..kMaxReplicas, of different servers; one at least serves
  std::uint32_t min = 1;             // if fewer members serve, changes are refused; 1..the number of members
  /// Rises if acknowledged and unsynced changes may be lost on all members, and by kHistory if an operator has let an
  /// older copy lead.
  std::uint64_t loss = 0;

  /// Null if the target is no member.
  const GroupMember* find(TargetId target) const;
  GroupMember* find(TargetId target);
  bool serves(TargetId target) const;
  std::size_t serving() const;
  /// Two records of one group with different histories: what was changed in the earlier one is lost in the later one,
  /// and a copy of the earlier one is of no use any more.
  std::uint64_t history() const { return loss / kHistory; }
  /// Every member serves.
  bool is_whole() const { return serving() == members.size(); }
  friend bool operator==(const DataGroup&, const DataGroup&) = default;
};

/// kCorrupt if a group is not as DataGroup demands.
Result<void> check_group(const DataGroup& group);

/// Whether the member `by` may change the record `from` to `to`. kInvalidArgument with a sentence otherwise. A legal
/// change raises the epoch by one and keeps `min`, the number of members and their order. Then one of these holds:
///  - the primary asks. It moves serving members to joining or absent, absent ones to joining, and joining ones to
///    serving or absent. It may put another target in the place of an absent one, and that target is absent too. It may
///    name another serving member as the primary, and may raise `loss`.
///  - a serving member asks, becomes the primary, and moves serving and joining members to absent. It may raise `loss`.
///  - another member asks, and changes only its own state: to absent, or from absent to joining.
///  - `by` is 0, an operator: all serving members are gone for good, and `to` is without_serving() of a member.
Result<void> check_change(const DataGroup& from, const DataGroup& to, TargetId by);

/// The next record if all serving members are gone for good, with what only they had: `leads`, which does not serve,
/// serves alone from now on, as the primary of a new history.
DataGroup without_serving(const DataGroup& from, TargetId leads);

/// Whether both records have the same targets in the same order.
bool same_targets(const DataGroup& a, const DataGroup& b);

/// docs/wire.md, "Data group". Decoding fails the decoder if check_group() does.
void encode(Encoder& out, const DataGroup& group);
DataGroup decode_data_group(Decoder& in);

}  // namespace spate
