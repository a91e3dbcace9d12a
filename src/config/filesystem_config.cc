// SPDX-License-Identifier: Apache-2.0
#include "config/filesystem_config.h"

#include <algorithm>

namespace spate::config {

const ServerConfig* FileSystemConfig::find_server(ServerId id) const {
  for (const ServerConfig& server : servers) {
    if (server.id == id) return &server;
  }
  return nullptr;
}

ClusterMap cluster_map(const FileSystemConfig& config) {
  ClusterMap map;
  map.fs = config.fs.id;
  for (const ServerConfig& server : config.servers) {
    ServerEntry entry{server.id, server.urls, server.roles, {}};
    for (std::size_t i = 0; i < server.storage.size(); ++i) entry.targets.push_back(target_id(server.id, i));
    map.servers.push_back(std::move(entry));
  }
  std::sort(map.servers.begin(), map.servers.end(),
            [](const ServerEntry& a, const ServerEntry& b) { return a.id < b.id; });
  return map;
}

}  // namespace spate::config
