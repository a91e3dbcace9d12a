// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/data_groups.h"

#include <algorithm>

#include "job/range_read.h"
#include "log/log.h"
#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

constexpr std::size_t kPage = 1024;

std::vector<TargetId> members_of(const DataGroup& group) {
  std::vector<TargetId> members;
  for (const GroupMember& member : group.members) members.push_back(member.target);
  return members;
}

bool is_on(const DataGroup& group, ServerId server) {
  return std::ranges::any_of(group.members, [server](const GroupMember& m) { return server_of(m.target) == server; });
}

DataGroup new_group(TargetId id, const std::vector<TargetId>& members, std::uint32_t min) {
  DataGroup group;
  group.id = id;
  group.min = min;
  group.primary = members.front();
  for (const TargetId member : members) group.members.push_back({member, MemberState::kServing});
  return group;
}

}  // namespace

job::Task<Result<void>> DataGroups::start() {
  trove::KeyRange range = all_of(KeyKind::kDataGroup);
  range.limit = kPage;
  range.mode = trove::ReadMode::kSnapshot;
  job::Transaction transaction = store_.begin();
  const auto take = [this](const trove::KeyValue& entry) -> Result<void> {
    SPATE_TRY(DataGroup group, decode_record<DataGroup>(entry.value));
    use(std::move(group));
    return {};
  };
  auto done = co_await job::read_range(transaction, std::move(range), "data groups in the meta store", take);
  co_return done;
}

const DataGroup* DataGroups::find(TargetId group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : &found->second;
}

const DataGroup* DataGroups::with_members(const std::vector<TargetId>& members, std::uint32_t min) const {
  const auto found = by_members_.find({min, members});
  return found == by_members_.end() ? nullptr : find(found->second);
}

std::set<ServerId> DataGroups::servers() const {
  std::set<ServerId> servers;
  for (const auto& [id, group] : groups_) {
    for (const GroupMember& member : group.members) servers.insert(server_of(member.target));
  }
  return servers;
}

/// Must not await. A change that was committed before a newer one may arrive after it, and is ignored.
void DataGroups::use(DataGroup group) {
  const auto [known, added] = groups_.try_emplace(group.id, group);
  if (!added && known->second.epoch >= group.epoch) return;
  if (!added && !same_targets(known->second, group)) forget_members(known->second);
  by_members_.try_emplace({group.min, members_of(group)}, group.id);
  known->second = std::move(group);
  parts_.io->group_changed(known->second);
}

/// New files are put into the group no more by the list of its members until now.
void DataGroups::forget_members(const DataGroup& group) {
  const auto found = by_members_.find({group.min, members_of(group)});
  if (found != by_members_.end() && found->second == group.id) by_members_.erase(found);
}

Result<wire::DataGroupsReply> DataGroups::list(const wire::DataGroupsRequest& request) const {
  if (request.groups.size() > wire::kMaxGroupsAsked)
    return Error::told(Errc::kInvalidArgument, "at most 4096 groups of targets at once");
  wire::DataGroupsReply reply;
  const auto add = [&reply](const DataGroup& group) {
    reply.more = reply.groups.size() == wire::kMaxGroupsTold;
    if (!reply.more) reply.groups.push_back(group);
    return !reply.more;
  };
  for (const TargetId id : request.groups) {
    const DataGroup* const group = find(id);
    if (group != nullptr && !add(*group)) break;
  }
  if (!request.groups.empty()) return reply;
  for (auto at = groups_.upper_bound(request.after); at != groups_.end(); ++at) {
    if (request.server && !is_on(at->second, request.server)) continue;
    if (!add(at->second)) break;
  }
  return reply;
}

job::Task<Result<wire::ChangeGroupReply>> DataGroups::change(wire::ChangeGroupRequest request) {
  wire::ChangeGroupReply reply;
  for (;;) {
    SPATE_CO_TRY(const bool settled, co_await try_change(request, reply));
    if (settled) co_return reply;
    co_await store_.executor().yield();
  }
}

/// A member knows a later record than this store, which can only be an older copy of itself. While the member serves
/// in the store's record, nothing can have been acknowledged since the copy was put back: the others would have needed
/// this member. So the later record holds.
Result<void> DataGroups::check_report(const DataGroup& now, const DataGroup& later, TargetId by) {
  SPATE_TRY(std::ignore, check_group(later));
  const bool holds = now.serves(by) && later.serves(by);
  if (told_.insert(later.id).second) {
    SPATE_LOG("server/meta", error,
              "the meta store is an older copy of itself: a member knows a later record of a group group={} epoch={} "
              "later={} by={} taken={}",
              later.id.value, now.epoch, later.epoch, by.value, holds);
  }
  if (holds) return {};
  return Error::told(Errc::kInvalidArgument,
                     "the meta server's record of group " + std::to_string(later.id.value) +
                         " is older than that of a member, which does not serve in both: the meta store is an older "
                         "copy of itself, and nobody can say which of the two records holds");
}

/// False: another change came between, try again.
job::Task<Result<bool>> DataGroups::try_change(const wire::ChangeGroupRequest& request, wire::ChangeGroupReply& reply) {
  const StoreKey key = data_group_key(request.next.id);
  job::Transaction transaction = store_.begin();
  const auto read = co_await transaction.get(key);
  if (read.status != Errc::kOk) co_return Error(read.status, "data groups in the meta store");
  if (!read.value) co_return Error::told(Errc::kNotFound, "there is no such group of targets");
  SPATE_CO_TRY(reply.now, decode_record<DataGroup>(*read.value));
  reply.made = reply.now == request.next;
  const bool reports = request.from_epoch == request.next.epoch;
  if (reports && reply.now.epoch < request.next.epoch) {
    SPATE_CO_TRY(std::ignore, check_report(reply.now, request.next, request.by));
  } else if (reply.made || reply.now.epoch != request.from_epoch) {
    // Another request may have committed it a moment ago, and nobody acts on a record that a crash could take back.
    const DataGroup* const durable = find(reply.now.id);
    if (durable != nullptr && *durable == reply.now) co_return true;
    const auto synced = co_await store_.sync();
    if (synced.status != Errc::kOk) co_return Error(synced.status, "data groups of the meta store");
    use(reply.now);
    co_return true;
  }
  if (!reports) {
    SPATE_CO_TRY(std::ignore, check_change(reply.now, request.next, request.by));
  }
  transaction.put(key, encoded(request.next));
  const auto done = co_await transaction.commit(trove::Durability::kMachine);
  if (done.status == Errc::kConflict) co_return false;
  if (done.status != Errc::kOk) co_return Error(done.status, "data groups of the meta store");
  told_.erase(request.next.id);
  SPATE_LOG("server/meta", info, "data group changed group={} epoch={} primary={} serving={} members={} by={}",
            request.next.id.value, request.next.epoch, request.next.primary.value, request.next.serving(),
            request.next.members.size(), request.by.value);
  use(request.next);
  reply.now = request.next;
  reply.made = true;
  co_return true;
}

job::Task<Result<void>> DataGroups::make(std::set<std::vector<TargetId>> lists, std::uint32_t min,
                                         job::StopToken stop) {
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await making_.acquire(1, stop));
  std::uint32_t next = std::max(kFirstGroup.value, last_used().value + 1);
  std::vector<DataGroup> made;
  job::Transaction transaction = store_.begin();
  for (const std::vector<TargetId>& members : lists) {
    if (by_members_.contains({min, members})) continue;  // made while this waited for its turn
    DataGroup group = new_group(TargetId(next++), members, min);
    SPATE_CO_TRY(std::ignore, check_group(group));
    transaction.put(data_group_key(group.id), encoded(group));
    made.push_back(std::move(group));
  }
  if (made.empty()) co_return Result<void>();
  const auto done = co_await transaction.commit(trove::Durability::kMachine);
  if (done.status != Errc::kOk) co_return Error(done.status, "data groups of the meta store");
  for (DataGroup& group : made) use(std::move(group));
  SPATE_LOG("server/meta", info, "data groups made count={} first={}", made.size(), next - made.size());
  co_return Result<void>();
}

}  // namespace spate::meta
