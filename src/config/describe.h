// SPDX-License-Identifier: Apache-2.0
// Texts for people: `spate config explain`, `spate config show`, and the file that `spate up` writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/filesystem_config.h"
#include "config/load.h"

namespace spate::config {

/// Each key with its doc, its allowed values, its default and its environment variable. `name`: one key ("meta.sync"),
/// one section ("meta"), or "" for all; kInvalidArgument with a suggestion for any other.
Result<std::string> explain(std::string_view name);

struct Explanation {
  std::string key;            // "meta.sync"
  std::string meaning;        // one or two sentences
  std::string allowed;        // in words
  std::string default_value;  // as in a file, or "none, must be given"
  std::string variable;       // its environment variable; empty: it has none
};
/// The same as explain(), key by key; empty for a name that explain() refuses.
std::vector<Explanation> explanations(std::string_view name);

/// The same for all keys as the Markdown of docs/config.md.
std::string explain_markdown();

/// One key and its present value.
struct Setting {
  std::string name;    // "meta.sync", "servers[0].urls"
  std::string value;   // as in a file: with quotes
  std::string origin;  // "file:line", "environment SPATE_META_SYNC", "command line" or "default"
};
/// Every key that applies, in the order of the file.
std::vector<Setting> settings(const LoadedConfig& loaded);

/// Each key that applies, as in a file, with its origin as a comment.
std::string show(const LoadedConfig& loaded);

/// A file with a comment for each key; keys with their default are commented out. load() of it yields `config` if its
/// paths are absolute.
std::string to_toml(const FileSystemConfig& config);

}  // namespace spate::config
