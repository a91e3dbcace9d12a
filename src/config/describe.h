// SPDX-License-Identifier: Apache-2.0
// What people read: `spate config explain`, `spate config show`, and the file that `spate up` writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/filesystem_config.h"
#include "config/load.h"

namespace spate::config {

/// Each key with its doc, what is allowed, its default and its environment variable. `name`: one key ("meta.sync"), one
/// section ("meta"), or "" for all; kInvalidArgument with a suggestion for another.
Result<std::string> explain(std::string_view name);

struct Explanation {
  std::string key;            // "meta.sync"
  std::string meaning;        // one or two sentences
  std::string allowed;        // in words
  std::string default_value;  // as it stands in a file, or "none, must be given"
  std::string variable;       // of the environment; empty: none can set it
};
/// The same as explain(), key by key; none for a name that explain() refuses.
std::vector<Explanation> explanations(std::string_view name);

/// The same for all keys as the Markdown of docs/config.md.
std::string explain_markdown();

/// One key in use.
struct Setting {
  std::string name;    // "meta.sync", "servers[0].urls"
  std::string value;   // as it stands in a file: with quotes
  std::string origin;  // "file:line", "environment SPATE_META_SYNC", "command line" or "default"
};
/// Every key in use, in the order of the file.
std::vector<Setting> settings(const LoadedConfig& loaded);

/// Each key in use, as it would stand in a file, with its origin as a comment.
std::string show(const LoadedConfig& loaded);

/// A file with a comment for each key; keys that have their default are commented out. load() of it yields `config`
/// when its paths are absolute.
std::string to_toml(const FileSystemConfig& config);

}  // namespace spate::config
