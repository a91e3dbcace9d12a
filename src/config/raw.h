// SPDX-License-Identifier: Apache-2.0
// A config file as sections of keys with line numbers. The syntax is a part of TOML 1.0: sections, texts of one line,
// integers, true and false, lists, comments (docs/config.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate::config {

constexpr std::size_t kMaxFileBytes = 4ULL << 20U;

struct RawValue {
  enum class Kind : std::uint8_t { kText, kInteger, kBoolean, kList, kOther };
  Kind kind = Kind::kOther;
  std::string text;            // kText; kOther (a fraction, a date): as in the file
  std::int64_t integer = 0;    // kInteger
  bool boolean = false;        // kBoolean
  std::vector<RawValue> list;  // kList
};

struct RawKey {
  std::string name;
  RawValue value;
  std::uint32_t line = 0;  // from 1
};

/// [name], or one item of [[name]]. Keys outside of any section are in a section with an empty name.
struct RawSection {
  std::string name;
  bool repeated = false;
  std::uint32_t line = 0;
  std::vector<RawKey> keys;
};

/// Yields the sections in the order of lines. kInvalidArgument with "file:line: ..." if `text` is not TOML, is longer
/// than kMaxFileBytes or nests sections. Never throws, whatever the bytes are.
Result<std::vector<RawSection>> read_toml(std::string_view text, std::string_view file_name);

}  // namespace spate::config
