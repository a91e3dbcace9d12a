// SPDX-License-Identifier: Apache-2.0
// The table of all keys. It drives reading, checking, `spate config explain`, `show` and writing. A new key is a member
// in filesystem_config.h and a row in keys.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/key.h"

namespace spate::config {

/// In the order in which the writer puts them into a file. Static storage.
std::span<const Section> sections();
std::span<const Key> keys();
/// Null when there is none.
const Section* find_section(std::string_view name);
const Key* find_key(std::string_view section, std::string_view name);

/// "servers[0]" for a section, "servers[0].urls" for a key, or "meta.sync" for a section that is not repeated.
std::string item_name(std::string_view section, std::size_t item);
std::string item_name(const Key& key, std::size_t item);

/// "4 KiB .. 4 GiB", "key | none", "a list of 1 .. 8 texts"; for messages and explain.
std::string allowed_text(const Key& key);
/// A value as it is written in a TOML file: `"100 ms"`, `4`, `["a", "b"]`.
std::string toml_text(const Key& key, const Value& value);
/// The value of a key that the file does not set.
Value default_value(const Key& key);
std::vector<std::string_view> split_choices(std::string_view choices);

}  // namespace spate::config
