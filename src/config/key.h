// SPDX-License-Identifier: Apache-2.0
// A key of spate.toml and a section of it: what the table of keys (keys.h) consists of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/filesystem_config.h"

namespace spate::config {

enum class Type : std::uint8_t {
  kText,
  kPath,  // made absolute: relative to the config file's folder
  kTextList,
  kPathList,
  kChoice,      // one of a few words
  kChoiceList,  // several of them
  kWordList,    // such words, each as often as one likes
  kCount,       // a number
  kSize,        // bytes: a number, or "64 KiB"
  kDuration,    // "100 ms"
  kSync,        // a duration, or "commit" (0)
  kHexId,       // up to 16 hex digits, not 0
};

/// A value of any Type: text; a number (count, bytes, nanoseconds, index of a choice, id); or a list.
using Value = std::variant<std::string, std::uint64_t, std::vector<std::string>>;

struct Key {
  std::string_view section;
  std::string_view name;
  Type type = Type::kText;
  std::string_view doc;           // one or two sentences
  std::string_view choices = {};  // "a|b|c" for the choice types
  std::uint64_t min = 0;          // numbers: the range; lists and texts: the range of their size
  std::uint64_t max = UINT64_MAX;
  bool required = false;
  /// Access to the member. `item` is the index in a repeated section, and ignored for others.
  Value (*get)(const FileSystemConfig& config, std::size_t item) = nullptr;
  void (*set)(FileSystemConfig& config, std::size_t item, const Value& value) = nullptr;

  /// "meta.sync".
  std::string full_name() const;
  /// "SPATE_META_SYNC"; empty for keys of repeated sections, which no variable can set.
  std::string environment_name() const;
};

struct Section {
  std::string_view name;
  std::string_view doc;
  bool repeated = false;  // [[name]]; then functions to count and to add items follow
  std::size_t (*count)(const FileSystemConfig& config) = [](const FileSystemConfig&) { return std::size_t{1}; };
  void (*add)(FileSystemConfig& config) = nullptr;
};

}  // namespace spate::config
