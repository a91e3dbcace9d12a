// SPDX-License-Identifier: Apache-2.0
// Checks relations between keys. Private to this folder.
#pragma once

#include <string>
#include <vector>

#include "config/filesystem_config.h"

namespace spate::config {

/// A mistake, and the key at which to report it ("fs.auth", "servers[1].urls"; "" = the file).
struct Problem {
  std::string key;
  std::string text;
};

inline std::string server_key(std::size_t index, std::string_view name) {
  return "servers[" + std::to_string(index) + "]." + std::string(name);
}

inline std::string server_name(const ServerConfig& server) { return "server " + std::to_string(server.id.value); }

/// All mistakes; empty if the config can be used.
std::vector<Problem> check(const FileSystemConfig& config);

/// A part of check(). Checks the proofs that the addresses ask of clients (fs.auth, servers.auth), and the other keys
/// that these need.
void check_auth(const FileSystemConfig& config, std::vector<Problem>& out);

}  // namespace spate::config
