// SPDX-License-Identifier: Apache-2.0
#include "config/filesystem_config.h"

#include <algorithm>
#include <array>

namespace spate::config {

const ServerConfig* FileSystemConfig::find_server(ServerId id) const {
  for (const ServerConfig& server : servers) {
    if (server.id == id) return &server;
  }
  return nullptr;
}

std::string_view auth_word(Auth auth) {
  constexpr std::array<std::string_view, 4> kWords = {"key", "none", "tls", "munge"};
  return kWords.at(static_cast<std::size_t>(auth));
}

Auth auth_at(const FileSystemConfig& config, const ServerConfig& server, std::size_t at) {
  if (server.auth.empty()) return config.fs.auth;
  return at < server.auth.size() ? server.auth[at] : server.auth.front();
}

bool asks_for(const FileSystemConfig& config, const ServerConfig& server, Auth auth) {
  if (server.auth.empty()) return config.fs.auth == auth;
  return std::ranges::find(server.auth, auth) != server.auth.end();
}

bool asks_for(const FileSystemConfig& config, Auth auth) {
  return std::ranges::any_of(config.servers,
                             [&](const ServerConfig& server) { return asks_for(config, server, auth); });
}

ClusterMap cluster_map(const FileSystemConfig& config) {
  ClusterMap map;
  map.fs = config.fs.id;
  for (const ServerConfig& server : config.servers) {
    ServerEntry entry{server.id, server.urls, server.roles, {}, server.rack};
    for (std::size_t i = 0; i < server.storage.size(); ++i) entry.targets.push_back(target_id(server.id, i));
    map.servers.push_back(std::move(entry));
  }
  std::sort(map.servers.begin(), map.servers.end(),
            [](const ServerEntry& a, const ServerEntry& b) { return a.id < b.id; });
  return map;
}

}  // namespace spate::config
