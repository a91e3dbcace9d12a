// SPDX-License-Identifier: Apache-2.0
// Reads a FileSystemConfig: command line before environment before file before default, each value with its origin.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/filesystem_config.h"

namespace spate::config {

/// One value given outside of the file.
struct Override {
  std::string key;     // "meta.sync"
  std::string value;   // as text; no quotes
  std::string origin;  // "environment SPATE_META_SYNC", "command line"
};

/// The variables SPATE_SECTION_KEY among `environment` ("NAME=value" each). Other variables are ignored. A variable
/// that begins with a section's name but names no key of it is an error.
Result<std::vector<Override>> overrides_from_environment(const std::vector<std::string>& environment);
/// Parses "meta.sync=5 ms", the argument of --set.
Result<Override> override_from_argument(std::string_view argument);

struct LoadedConfig {
  FileSystemConfig config;
  std::string text;  // of the file; set by load_file()
  /// By full name ("meta.sync"; "servers[0].urls"): "file:line", or an Override's origin. A key with its default is
  /// absent.
  std::map<std::string, std::string> origins;
};

struct Input {
  std::string text;                 // of the file
  std::string file_name;            // for messages
  std::string folder;               // absolute; where relative paths start
  std::vector<Override> overrides;  // later ones win
};

/// All checks, except those that need other files of this machine (key_file.h). Fails with all mistakes, a line each:
/// "file:line: what is wrong; allowed: ...". Pure.
Result<LoadedConfig> load(const Input& input);

/// The same for a file on disk.
Result<LoadedConfig> load_file(const std::string& path, std::vector<Override> overrides);

}  // namespace spate::config
