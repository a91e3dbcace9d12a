// SPDX-License-Identifier: Apache-2.0
// Checks relations between keys. Private to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/filesystem_config.h"

namespace spate::config {

/// A mistake, and the key at which to report it ("fs.auth", "servers[1].urls"; "" = the file).
struct Problem {
  std::string key;
  std::string text;
};

/// All mistakes; empty if the config can be used.
std::vector<Problem> check(const FileSystemConfig& config);

/// "tcp://host:port", "ofi+PROVIDER://host:port", "shm://name", "shm:///path", "sim://number".
Result<void> check_url(std::string_view url);

}  // namespace spate::config
