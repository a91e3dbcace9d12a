// SPDX-License-Identifier: Apache-2.0
#include "model/cluster_map.h"

#include <algorithm>

namespace spate {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kVersionWithRacks = 2;
constexpr std::uint8_t kMetaBit = 1;
constexpr std::uint8_t kIoBit = 2;

ServerEntry decode_server(Decoder& in, std::uint8_t version) {
  ServerEntry server;
  server.id = ServerId(in.u32());
  if (server.id.value == 0 || server.id.value > kMaxServerId) in.fail();
  const std::uint8_t roles = in.u8();
  if (roles == 0 || roles > (kMetaBit | kIoBit)) in.fail();
  server.roles = {(roles & kMetaBit) != 0, (roles & kIoBit) != 0};
  const std::uint32_t urls = in.count(4);
  if (urls == 0 || urls > kMaxUrlsPerServer) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < urls; ++i) server.urls.push_back(in.text(kMaxUrlBytes));
  const std::uint32_t targets = in.count(4);
  if (targets > kMaxTargetsPerServer) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < targets; ++i) {
    server.targets.emplace_back(in.u32());
    if (server.targets.back().value / kMaxTargetsPerServer != server.id.value) in.fail();
  }
  if (version == kVersionWithRacks) server.rack = in.text(kMaxRackBytes);
  if (!server.rack.empty() && !is_rack_name(server.rack)) in.fail();
  return server;
}

Error other_roles(const ServerEntry& server) {
  return Error(Errc::kProtocol, "server " + std::to_string(server.id.value) + " has other roles in another map");
}

}  // namespace

bool is_rack_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxRackBytes && std::ranges::all_of(name, fits);
}

bool ClusterMap::has_racks() const {
  return std::ranges::any_of(servers, [](const ServerEntry& server) { return !server.rack.empty(); });
}

const ServerEntry* ClusterMap::find_server(ServerId id) const {
  const auto at =
      std::partition_point(servers.begin(), servers.end(), [id](const ServerEntry& s) { return s.id < id; });
  return at != servers.end() && at->id == id ? &*at : nullptr;
}

const ServerEntry* ClusterMap::server_of_target(TargetId target) const {
  const ServerEntry* server = find_server(server_of(target));
  if (server == nullptr) return nullptr;
  const auto& targets = server->targets;
  return std::find(targets.begin(), targets.end(), target) != targets.end() ? server : nullptr;
}

ServerEntry ClusterMap::meta_server() const {
  ServerEntry all;
  std::size_t count = 0;
  for (const ServerEntry& server : servers) {
    if (!server.roles.meta) continue;
    if (++count == 1) {
      all = server;
      continue;
    }
    all.id = ServerId();
    all.roles = Roles{true, false};
    all.targets.clear();
    all.urls.insert(all.urls.end(), server.urls.begin(), server.urls.end());
  }
  return all;
}

Result<void> ClusterMap::add(const ServerEntry& server) {
  const auto at = std::partition_point(servers.begin(), servers.end(),
                                       [&](const ServerEntry& ours) { return ours.id < server.id; });
  if (at == servers.end() || at->id != server.id) {
    servers.insert(at, server);
    return {};
  }
  if (at->roles != server.roles) return other_roles(server);
  if (at->rack.empty()) at->rack = server.rack;
  for (const TargetId target : server.targets) {
    if (server_of_target(target) == nullptr) at->targets.push_back(target);
  }
  return {};
}

Result<void> ClusterMap::grow(const ClusterMap& other) {
  if (other.fs != fs) return Error(Errc::kWrongFileSystem, "a cluster map of another file system");
  for (const ServerEntry& theirs : other.servers) {
    const ServerEntry* const ours = find_server(theirs.id);
    if (ours != nullptr && ours->roles != theirs.roles) return other_roles(theirs);
  }
  for (const ServerEntry& theirs : other.servers) {
    SPATE_TRY(std::ignore, add(theirs));
  }
  version = std::max(version, other.version);
  return {};
}

std::vector<TargetId> ClusterMap::targets_in_turn() const {
  std::vector<TargetId> out;
  for (std::size_t round = 0; round < kMaxTargetsPerServer; ++round) {
    const std::size_t before = out.size();
    for (const ServerEntry& server : servers) {
      if (round < server.targets.size()) out.push_back(server.targets[round]);
    }
    if (out.size() == before) break;
  }
  return out;
}

void encode(Encoder& out, const ClusterMap& map) {
  const bool racks = map.has_racks();
  out.u8(racks ? kVersionWithRacks : kVersion);
  out.u64(map.version);
  out.u64(map.fs.value);
  out.u32(static_cast<std::uint32_t>(map.servers.size()));
  for (const ServerEntry& server : map.servers) {
    out.u32(server.id.value);
    out.u8(static_cast<std::uint8_t>((server.roles.meta ? kMetaBit : 0) | (server.roles.io ? kIoBit : 0)));
    out.u32(static_cast<std::uint32_t>(server.urls.size()));
    for (const std::string& url : server.urls) out.text(url);
    out.u32(static_cast<std::uint32_t>(server.targets.size()));
    for (const TargetId target : server.targets) out.u32(target.value);
    if (racks) out.text(server.rack);
  }
}

ClusterMap decode_cluster_map(Decoder& in) {
  ClusterMap map;
  const std::uint8_t version = in.u8();
  if (version != kVersion && version != kVersionWithRacks) in.fail();
  map.version = in.u64();
  map.fs = FsId(in.u64());
  if (map.version == 0 || !map.fs) in.fail();
  const std::uint32_t servers = in.count(4 + 1 + 4 + 4);
  if (servers > kMaxServers) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < servers; ++i) {
    map.servers.push_back(decode_server(in, version));
    if (i > 0 && map.servers[i - 1].id >= map.servers[i].id) in.fail();
  }
  if (version == kVersionWithRacks && !map.has_racks()) in.fail();  // it has no reason for this version
  return map;
}

}  // namespace spate
