// SPDX-License-Identifier: Apache-2.0
// DataGroups: the groups of targets that keep the same datafiles (docs/architecture.md, "Mirrored data").
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "job/semaphore.h"
#include "job/storage.h"
#include "server/meta/core/parts.h"
#include "wire/mirror_messages.h"

namespace spate::meta {

/// The records of all groups, in the store and in memory. A record is durable before anybody is told of it. The members
/// of a group change its record. This class only ensures that each change is legal and made once. One executor; pinned.
/// Life cycle: construct -> start() awaited -> the other calls.
class DataGroups {
 public:
  /// All outlive it.
  DataGroups(job::KeyvalContext& store, const MetaParts& parts)
      : store_(store), parts_(parts), making_(store.executor(), 1) {}
  DataGroups(const DataGroups&) = delete;
  DataGroups& operator=(const DataGroups&) = delete;

  job::Task<Result<void>> start();

  /// Null: there is no such group.
  const DataGroup* find(TargetId group) const;
  /// All groups, in the order of their numbers.
  const std::map<TargetId, DataGroup>& all() const { return groups_; }
  /// The servers that have a member in some group. Looks through all groups.
  std::set<ServerId> servers() const;
  /// kInvalidArgument: more groups than a request may name.
  Result<wire::DataGroupsReply> list(const wire::DataGroupsRequest& request) const;
  /// Carries out a ChangeGroupRequest. Other changes may run at the same time, even of the same group.
  job::Task<Result<wire::ChangeGroupReply>> change(wire::ChangeGroupRequest request);

  /// A group with these members in this order and this `min`, if there is one.
  const DataGroup* with_members(const std::vector<TargetId>& members, std::uint32_t min) const;
  /// Makes a group with this `min` for each list of members that has none. The first member of each becomes the
  /// primary.
  job::Task<Result<void>> make(std::set<std::vector<TargetId>> lists, std::uint32_t min, job::StopToken stop);
  /// New groups get numbers beyond this one only.
  void skip_to_after(TargetId used) { last_used_ = std::max(last_used_, used); }
  /// The highest number that a group has, or that was skipped.
  TargetId last_used() const { return groups_.empty() ? last_used_ : std::max(last_used_, groups_.rbegin()->first); }

 private:
  Result<void> check_report(const DataGroup& now, const DataGroup& later, TargetId by);
  job::Task<Result<bool>> try_change(const wire::ChangeGroupRequest& request, wire::ChangeGroupReply& reply);
  void use(DataGroup group);
  void forget_members(const DataGroup& group);

  job::KeyvalContext& store_;
  const MetaParts& parts_;
  std::map<TargetId, DataGroup> groups_;
  /// One group for each list of members and `min`.
  std::map<std::pair<std::uint32_t, std::vector<TargetId>>, TargetId> by_members_;
  std::set<TargetId> told_;  // groups with a later record at a member; the log has them
  TargetId last_used_;
  job::Semaphore making_;
};

}  // namespace spate::meta
