// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/group_servers.h"

#include <algorithm>

#include "job/deadline.h"
#include "log/log.h"
#include "model/member_choice.h"

namespace spate::meta {

void GroupServers::note(ServerId server, bool can) {
  (can ? cannot_ : can_).erase(server);
  const bool changes = (can ? can_ : cannot_).insert(server).second;
  if (!changes) return;
  changed_.set();
  changed_.reset();
}

bool GroupServers::fell_silent(ServerId server) const {
  const auto found = heard_.find(server);
  return found != heard_.end() && found->second + kSilent < executor_.now();
}

const ClusterMap& GroupServers::able(const ClusterMap& map, std::uint32_t replicas, ClusterMap& room) const {
  const auto is_silent = [this](const ServerEntry& server) { return fell_silent(server.id); };
  const bool some_silent = std::ranges::any_of(map.servers, is_silent);
  if (cannot_.empty() && !some_silent) return map;
  room = map;
  std::erase_if(room.servers, [this](const ServerEntry& server) { return cannot_.contains(server.id); });
  if (!some_silent) return room;
  ClusterMap others = room;
  std::erase_if(others.servers, is_silent);
  const std::vector<const ServerEntry*> all = servers_with_targets(room);
  const std::vector<const ServerEntry*> left = servers_with_targets(others);
  const bool apart = may_keep_apart(left, replicas) >= may_keep_apart(all, replicas);
  if (left.size() >= replicas && apart) room = std::move(others);
  return room;
}

std::vector<ServerId> GroupServers::unknown(const ClusterMap& map) const {
  std::vector<ServerId> unknown;
  for (const ServerEntry& server : map.servers) {
    const bool holds = server.roles.io && !server.targets.empty();
    if (holds && !can_.contains(server.id) && !cannot_.contains(server.id)) unknown.push_back(server.id);
  }
  return unknown;
}

Result<void> GroupServers::check_replacement(const ClusterMap& map, const DataGroup& next,
                                             const std::set<ServerId>& members) const {
  const std::vector<const ServerEntry*> servers = servers_with_targets(map);
  const auto is_silent = [this, &members](const ServerEntry* server) {
    return members.contains(server->id) && (!heard_.contains(server->id) || fell_silent(server->id));
  };
  const auto silent = static_cast<std::size_t>(std::ranges::count_if(servers, is_silent));
  if (silent > 1 && silent * 100 > servers.size() * kMostSilent)
    return Error::told(Errc::kTryAgain,
                       std::to_string(silent) + " of " + std::to_string(servers.size()) +
                           " io servers are silent: no copy is made elsewhere until more of them answer");
  for (const GroupMember& member : next.members) {
    if (!cannot_.contains(server_of(member.target))) continue;
    return Error::told(Errc::kTryAgain,
                       "server " + std::to_string(server_of(member.target).value) + " keeps no copies of data");
  }
  return {};
}

Result<void> GroupServers::check_gone(const DataGroup& group) const {
  for (const GroupMember& member : group.members) {
    const ServerId server = server_of(member.target);
    if (member.state != MemberState::kServing || !heard_.contains(server) || fell_silent(server)) continue;
    return Error::told(Errc::kTryAgain, "server " + std::to_string(server.value) +
                                            " has asked the meta server for its groups less than 10 s ago, so it is "
                                            "not gone");
  }
  return {};
}

job::Task<Result<void>> GroupServers::wait_for(std::vector<ServerId> servers, job::StopToken stop) {
  job::DeadlineScope scope(executor_, executor_.now() + kTimeout, stop);
  const auto known = [this](ServerId server) { return can_.contains(server) || cannot_.contains(server); };
  while (!std::ranges::all_of(servers, known)) {
    const auto changed = co_await changed_.wait(scope.token());
    if (changed) continue;
    if (stop.stopped()) co_return changed.error();
    for (const ServerId server : servers) {
      if (known(server)) continue;
      SPATE_LOG("server/meta", warn, "new mirrored files have no copy at a server that has not spoken server={}",
                server.value);
      note(server, false);
    }
  }
  co_return Result<void>();
}

}  // namespace spate::meta
