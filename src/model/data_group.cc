// SPDX-License-Identifier: Apache-2.0
#include "model/data_group.h"

#include <algorithm>

namespace spate {
namespace {

constexpr std::size_t kMemberBytes = 4 + 1;

bool known(MemberState state) { return state >= MemberState::kServing && state <= MemberState::kAbsent; }

Error illegal(const char* sentence) { return Error::told(Errc::kInvalidArgument, sentence); }

/// Whether the primary may move a member from one state to the other.
bool primary_may(MemberState from, MemberState to) {
  switch (from) {
    case MemberState::kServing:
    case MemberState::kJoining: return true;
    case MemberState::kAbsent: return to != MemberState::kServing;
  }
  return false;
}

Result<void> check_states(const DataGroup& from, const DataGroup& to, bool by_primary, bool takes_over, TargetId by) {
  for (std::size_t i = 0; i < from.members.size(); ++i) {
    const MemberState before = from.members[i].state;
    const MemberState after = to.members[i].state;
    if (from.members[i].target != to.members[i].target) {
      if (by_primary && before == MemberState::kAbsent && after == MemberState::kAbsent) continue;
      return illegal("only the primary puts another target in the place of an absent one, and it is absent too");
    }
    if (before == after) continue;
    const bool own = from.members[i].target == by;
    if (by_primary && primary_may(before, after)) continue;
    if (takes_over && after == MemberState::kAbsent && !own) continue;
    if (!takes_over && own && (after == MemberState::kAbsent || before == MemberState::kAbsent) &&
        after != MemberState::kServing)
      continue;
    return illegal("the member may not change this state in the group's record");
  }
  return {};
}

/// An operator has accepted the loss of what only the serving members have.
Result<void> check_accepted_loss(const DataGroup& from, const DataGroup& to) {
  if (from.find(to.primary) == nullptr || from.serves(to.primary))
    return illegal("only a member that does not serve may lead by an operator's word");
  if (to != without_serving(from, to.primary))
    return illegal("by an operator's word one member serves alone, in a new history of its group");
  return {};
}

}  // namespace

const GroupMember* DataGroup::find(TargetId target) const { return const_cast<DataGroup*>(this)->find(target); }

GroupMember* DataGroup::find(TargetId target) {
  const auto found = std::ranges::find(members, target, &GroupMember::target);
  return found == members.end() ? nullptr : &*found;
}

bool DataGroup::serves(TargetId target) const {
  const GroupMember* const member = find(target);
  return member != nullptr && member->state == MemberState::kServing;
}

std::size_t DataGroup::serving() const {
  return static_cast<std::size_t>(std::ranges::count(members, MemberState::kServing, &GroupMember::state));
}

Result<void> check_group(const DataGroup& group) {
  const auto bad = [] { return Error(Errc::kCorrupt, "data group"); };
  const std::size_t count = group.members.size();
  if (!is_group(group.id) || group.epoch == 0 || count < 2 || count > kMaxReplicas) return bad();
  if (group.min < 1 || group.min > count || !group.serves(group.primary)) return bad();
  for (std::size_t i = 0; i < count; ++i) {
    const GroupMember& member = group.members[i];
    if (!member.target || is_group(member.target) || !known(member.state)) return bad();
    for (std::size_t j = 0; j < i; ++j) {
      if (server_of(group.members[j].target) == server_of(member.target)) return bad();
    }
  }
  return {};
}

Result<void> check_change(const DataGroup& from, const DataGroup& to, TargetId by) {
  SPATE_TRY(std::ignore, check_group(to));
  if (to.id != from.id) return illegal("the record is of another group");
  if (to.epoch != from.epoch + 1) return illegal("a change of a group's record raises its epoch by one");
  if (to.min != from.min || to.members.size() != from.members.size())
    return illegal("a change of a group's record keeps the number of its members and their least number");
  if (!by) return check_accepted_loss(from, to);
  if (from.find(by) == nullptr) return illegal("only a member changes a group's record");
  const bool by_primary = by == from.primary;
  const bool takes_over = !by_primary && to.primary == by;
  if (takes_over && !from.serves(by)) return illegal("a member that does not serve cannot become the primary");
  if (!by_primary && !takes_over && to.primary != from.primary)
    return illegal("a member may only name itself as the primary");
  if (by_primary && !from.serves(to.primary)) return illegal("a member that did not serve cannot become the primary");
  if (to.loss < from.loss || (to.loss != from.loss && !by_primary && !takes_over))
    return illegal("only the primary, or the member that becomes it, raises the loss");
  return check_states(from, to, by_primary, takes_over, by);
}

DataGroup without_serving(const DataGroup& from, TargetId leads) {
  DataGroup next = from;
  ++next.epoch;
  next.loss = (from.history() + 1) * kHistory;
  next.primary = leads;
  for (GroupMember& member : next.members)
    member.state = member.target == leads ? MemberState::kServing : MemberState::kAbsent;
  return next;
}

bool same_targets(const DataGroup& a, const DataGroup& b) {
  return std::ranges::equal(a.members, b.members, {}, &GroupMember::target, &GroupMember::target);
}

void encode(Encoder& out, const DataGroup& group) {
  out.u32(group.id.value);
  out.u64(group.epoch);
  out.u32(group.primary.value);
  out.u32(static_cast<std::uint32_t>(group.members.size()));
  for (const GroupMember& member : group.members) {
    out.u32(member.target.value);
    out.u8(static_cast<std::uint8_t>(member.state));
  }
  out.u32(group.min);
  out.u64(group.loss);
}

DataGroup decode_data_group(Decoder& in) {
  DataGroup group;
  group.id = TargetId(in.u32());
  group.epoch = in.u64();
  group.primary = TargetId(in.u32());
  const std::uint32_t count = in.count(kMemberBytes);
  if (count > kMaxReplicas) in.fail();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const TargetId target(in.u32());
    group.members.push_back({target, static_cast<MemberState>(in.u8())});
  }
  group.min = in.u32();
  group.loss = in.u64();
  if (in.ok() && !check_group(group)) in.fail();
  return in.ok() ? group : DataGroup{};
}

}  // namespace spate
