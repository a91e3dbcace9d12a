// SPDX-License-Identifier: Apache-2.0
#include "tests/mirror/mirror_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/cluster/io_service_access.h"

namespace spate::cluster {

WorldOptions mirror_options(std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.replicas = 2;
  options.doubled = 0;
  return options;
}

std::map<TargetId, DataGroup> MirrorWorld::groups() {
  ServerProcess* const meta = world.server(world.leader());
  if (meta == nullptr || meta->meta() == nullptr || !meta->serving()) return {};
  return meta->meta()->core().data_groups().all();
}

ServerId MirrorWorld::primary_of(const client::File& file) { return server_of(group_of(file).primary); }

ServerId MirrorWorld::backup_of(const client::File& file) {
  const DataGroup group = group_of(file);
  for (const GroupMember& member : group.members) {
    if (member.target != group.primary) return server_of(member.target);
  }
  return {};
}

bool MirrorWorld::is_whole() {
  for (const ServerId id : world.servers()) {
    ServerProcess* const server = world.server(id);
    if (server == nullptr || !server->serving()) return false;
    if (server->io() != nullptr && !io::IoServiceTestAccess::groups_settled(*server->io())) return false;
  }
  const auto all = groups();
  return !all.empty() && std::ranges::all_of(all, [](const auto& entry) { return entry.second.is_whole(); });
}

bool MirrorWorld::become_whole(Duration at_most) {
  const MonoTime limit = world.now() + at_most;
  while (!is_whole() && world.now() < limit) world.run_for(std::chrono::milliseconds(100));
  return is_whole();
}

void MirrorWorld::end_in_order(ServerId server) { end_in_order(std::vector<ServerId>(1, server)); }

void MirrorWorld::end_in_order(const std::vector<ServerId>& servers) {
  for (const ServerId server : servers) world.server(server)->end_in_order();
  const MonoTime limit = world.now() + std::chrono::seconds(2);
  const auto ended = [this](ServerId server) { return world.server(server)->handed_over(); };
  while (!std::ranges::all_of(servers, ended) && world.now() < limit) world.run_for(std::chrono::milliseconds(1));
  for (const ServerId server : servers) kill(server);
}

bool MirrorWorld::is_leftover(const DatafileId& datafile, ServerId server) {
  const auto layout = layouts_.find(datafile.handle.value);
  if (layout == layouts_.end() || !without_power_.contains(server)) return false;
  const DataGroup group = groups().at(layout->second.slots[datafile.slot].targets.front());
  return std::ranges::none_of(group.members, [server](const auto& m) { return server_of(m.target) == server; });
}

std::string MirrorWorld::differences() {
  world.run_for(std::chrono::seconds(1));
  struct Copies {
    std::vector<ServerId> servers;
    std::vector<Bytes> contents;
  };
  std::map<DatafileId, Copies> all;
  for (const ServerId server : world.servers()) {
    for (const auto& disk : world.disks(server).targets) {
      for (const DatafileId& id : disk->list({}, 100'000)) {
        if (is_leftover(id, server)) continue;
        Copies& copies = all[id];
        copies.servers.push_back(server);
        copies.contents.push_back(*disk->content(id));
      }
    }
  }
  std::string wrong;
  for (const auto& [id, copies] : all) {
    const std::string name = fmt::format("datafile {}:{}", id.handle.value, id.slot);
    if (copies.servers.size() == 1 && copies.contents[0].empty()) continue;  // an empty datafile is the same as none
    if (copies.servers.size() != options_.replicas) {
      wrong += fmt::format("{} has {} copies; ", name, copies.servers.size());
      continue;
    }
    for (std::size_t i = 1; i < copies.contents.size(); ++i) {
      const Bytes& a = copies.contents[0];
      const Bytes& b = copies.contents[i];
      if (a == b) continue;
      const auto at = std::ranges::mismatch(a, b).in1 - a.begin();
      wrong += fmt::format("{} differs at {}: servers {} and {}, {} and {} bytes; ", name, at, copies.servers[0].value,
                           copies.servers[i].value, a.size(), b.size());
    }
  }
  return wrong;
}

}  // namespace spate::cluster
