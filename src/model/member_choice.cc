// SPDX-License-Identifier: Apache-2.0
#include "model/member_choice.h"

#include <algorithm>
#include <set>

namespace spate {
namespace {

/// A number that looks random, the same in every process (the finalizer of SplitMix64).
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

std::uint64_t weight(const DataGroup& group, std::uint32_t what) {
  return mixed((std::uint64_t{group.id.value} << 32U) | what);
}

}  // namespace

std::string_view host_of(const ServerEntry& server) {
  for (const std::string& url : server.urls) {
    if (url.starts_with("shm:")) continue;
    std::string_view rest = url;
    const std::size_t scheme = rest.find("://");
    if (scheme == std::string_view::npos) continue;
    rest.remove_prefix(scheme + 3);
    return rest.substr(0, rest.starts_with('[') ? rest.find(']') : rest.find_first_of(":/"));
  }
  return {};
}

std::vector<const ServerEntry*> servers_with_targets(const ClusterMap& map) {
  std::vector<const ServerEntry*> servers;
  for (const ServerEntry& server : map.servers) {
    if (server.roles.io && !server.targets.empty()) servers.push_back(&server);
  }
  return servers;
}

bool may_keep_hosts_apart(const std::vector<const ServerEntry*>& servers, std::size_t count) {
  std::set<std::string_view> hosts;
  for (const ServerEntry* server : servers) hosts.insert(host_of(*server));
  return !hosts.contains({}) && hosts.size() >= count;
}

std::vector<TargetId> replacements(const ClusterMap& map, const DataGroup& group, TargetId absent) {
  const std::vector<const ServerEntry*> all = servers_with_targets(map);
  std::set<ServerId> members;
  std::set<std::string_view> hosts;
  for (const GroupMember& member : group.members) {
    members.insert(server_of(member.target));
    const ServerEntry* const server = map.find_server(server_of(member.target));
    if (member.target != absent && server != nullptr) hosts.insert(host_of(*server));
  }
  const bool apart = may_keep_hosts_apart(all, group.members.size());
  std::vector<TargetId> found;
  for (const ServerEntry* server : all) {
    if (members.contains(server->id) || (apart && hosts.contains(host_of(*server)))) continue;
    found.push_back(server->targets[weight(group, server->id.value) % server->targets.size()]);
  }
  std::ranges::sort(found, {}, [&group](TargetId target) { return weight(group, target.value); });
  return found;
}

}  // namespace spate
