// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/mirror_choice.h"

#include <algorithm>
#include <set>

#include "model/member_choice.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

/// If a group is missing, the groups of this many targets are made at once.
constexpr std::size_t kTargetsAtOnce = 64;

/// The io servers with targets, beginning with that of `first`, in the order of their numbers.
std::vector<const ServerEntry*> servers_from(const ClusterMap& map, TargetId first) {
  std::vector<const ServerEntry*> servers = servers_with_targets(map);
  const auto own = std::ranges::find(servers, server_of(first), [](const ServerEntry* s) { return s->id; });
  std::ranges::rotate(servers, own);
  return servers;
}

Error too_few(std::uint32_t replicas, std::size_t servers) {
  return Error::told(Errc::kNoSpace, "new files here have " + std::to_string(replicas) +
                                         " copies on different io servers, and the file system has " +
                                         std::to_string(servers) + " io server" + (servers == 1 ? "" : "s"));
}

std::string that_can() { return " that can keep them: the others are away, or of an earlier version"; }

/// `wanted`, or a target of the next server in the map, if that one's server is not in it.
TargetId first_member(const ClusterMap& map, TargetId wanted) {
  if (map.server_of_target(wanted) != nullptr || map.servers.empty()) return wanted;
  const std::vector<TargetId> targets = map.targets_in_turn();
  const auto next = std::ranges::find_if(targets, [wanted](TargetId target) { return target > wanted; });
  if (targets.empty()) return wanted;
  return next == targets.end() ? targets.front() : *next;
}

/// Groups of the targets that the next files will probably begin on.
std::set<std::vector<TargetId>> groups_near(const ClusterMap& map, TargetId first, std::uint32_t replicas) {
  std::set<std::vector<TargetId>> lists;
  const std::vector<TargetId> targets = map.targets_in_turn();
  const auto found = std::ranges::find(targets, first);
  const auto begin = static_cast<std::size_t>(found == targets.end() ? 0 : found - targets.begin());
  for (std::size_t i = 0; i < std::min(targets.size(), kTargetsAtOnce); ++i) {
    const TargetId target = targets[(begin + i) % targets.size()];
    for (std::uint64_t turn = 0; turn < kMostPartners; ++turn) {
      auto members = group_members(map, target, replicas, turn);
      if (members) lists.insert(*std::move(members));
    }
  }
  return lists;
}

/// Prefers a group of this target whose members all serve to the group whose turn it is.
Result<const DataGroup*> choose_group(const DataGroups& groups, const ClusterMap& map, TargetId first, Copies copies,
                                      std::uint64_t turn) {
  const DataGroup* chosen = nullptr;
  for (std::uint64_t i = 0; i < kMostPartners; ++i) {
    SPATE_TRY(const auto members, group_members(map, first, copies.replicas, turn + i));
    const DataGroup* const group = groups.with_members(members, copies.min);
    if (group == nullptr) return nullptr;
    if (chosen == nullptr) chosen = group;
    if (group->is_whole()) return group;
  }
  return chosen;
}

}  // namespace

Result<std::vector<TargetId>> group_members(const ClusterMap& map, TargetId first, std::uint32_t replicas,
                                            std::uint64_t turn) {
  turn %= kMostPartners;
  const std::vector<const ServerEntry*> servers = servers_from(map, first);
  if (servers.size() < replicas) return too_few(replicas, servers.size());
  const Apart apart = may_keep_apart(servers, replicas);
  std::set<std::string_view> places{place_of(*servers.front(), apart)};
  std::vector<const ServerEntry*> partners;
  for (const ServerEntry* server : servers) {
    const bool same_place = apart != Apart::kServers && places.contains(place_of(*server, apart));
    if (server != servers.front() && !same_place) partners.push_back(server);
  }
  // A group of many members may need more than the usual partners to find as many racks or hosts.
  const std::size_t usual = std::min(partners.size(), kMostPartners);
  std::ranges::rotate(partners.begin(), partners.begin() + static_cast<std::ptrdiff_t>(turn % usual),
                      partners.begin() + static_cast<std::ptrdiff_t>(usual));
  const auto own = static_cast<std::size_t>(first.value % kMaxTargetsPerServer);
  std::vector<TargetId> members{first};
  for (const ServerEntry* partner : partners) {
    if (members.size() == replicas) break;
    if (apart != Apart::kServers && !places.insert(place_of(*partner, apart)).second) continue;
    members.push_back(partner->targets[(own + turn) % partner->targets.size()]);
  }
  return members;
}

Result<void> mirror(Operation& operation, Layout& layout, Copies copies, std::uint64_t turn) {
  MetaCore& core = operation.core();
  layout.redundancy = Redundancy::kMirror;
  SPATE_TRY(std::ignore, check_knows(*operation.call().peer, layout));
  ClusterMap room;
  const ClusterMap& map = core.group_servers().able(core.membership().map(), copies.replicas, room);
  std::set<std::vector<TargetId>> missing;
  for (Slot& slot : layout.slots) {
    TargetId& target = slot.targets.front();
    if (is_group(target)) {
      if (core.data_groups().find(target) == nullptr)
        return Error::told(Errc::kInvalidArgument, "there is no group of targets " + std::to_string(target.value));
      continue;
    }
    if (copies.replicas < 2)
      return Error::told(Errc::kInvalidArgument, "either groups of targets are named, or targets");
    const TargetId first = first_member(map, target);
    const auto chosen = choose_group(core.data_groups(), map, first, copies, turn);
    if (!chosen && map.servers.size() < core.membership().map().servers.size())
      return Error::told(chosen.code(), std::string(chosen.error().context()) + that_can());
    SPATE_TRY(const DataGroup* const group, chosen);
    if (group == nullptr) {
      missing.merge(groups_near(map, first, copies.replicas));
    } else {
      target = group->id;
    }
  }
  if (missing.empty()) return {};
  std::vector<ServerId> unknown = core.group_servers().unknown(map);
  if (!unknown.empty()) {
    return operation.deferred().run_again_after(
        [&core, servers = std::move(unknown), stop = operation.call().stop]() mutable {
          return core.group_servers().wait_for(std::move(servers), stop);
        });
  }
  return operation.deferred().run_again_after(
      [&core, lists = std::move(missing), min = copies.min, stop = operation.call().stop]() mutable {
        return core.data_groups().make(std::move(lists), min, stop);
      });
}

}  // namespace spate::meta
