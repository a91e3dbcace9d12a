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

std::string_view place_of(const ServerEntry& server, Apart apart) {
  if (apart == Apart::kServers) return {};
  return apart == Apart::kRacks && !server.rack.empty() ? std::string_view(server.rack) : host_of(server);
}

Apart may_keep_apart(const std::vector<const ServerEntry*>& servers, std::size_t count) {
  for (const Apart apart : {Apart::kRacks, Apart::kHosts}) {
    std::set<std::string_view> places;
    for (const ServerEntry* server : servers) places.insert(place_of(*server, apart));
    if (!places.contains({}) && places.size() >= count) return apart;
  }
  return Apart::kServers;
}

std::vector<TargetId> replacements(const ClusterMap& map, const DataGroup& group, TargetId absent) {
  const std::vector<const ServerEntry*> all = servers_with_targets(map);
  const Apart apart = may_keep_apart(all, group.members.size());
  std::set<ServerId> members;
  std::set<std::string_view> places;
  for (const GroupMember& member : group.members) {
    members.insert(server_of(member.target));
    const ServerEntry* const server = map.find_server(server_of(member.target));
    if (member.target != absent && server != nullptr) places.insert(place_of(*server, apart));
  }
  std::vector<TargetId> found;
  for (const ServerEntry* server : all) {
    if (members.contains(server->id)) continue;
    if (apart != Apart::kServers && places.contains(place_of(*server, apart))) continue;
    found.push_back(server->targets[weight(group, server->id.value) % server->targets.size()]);
  }
  std::ranges::sort(found, {}, [&group](TargetId target) { return weight(group, target.value); });
  return found;
}

}  // namespace spate
