// SPDX-License-Identifier: Apache-2.0
// The rows of the table of keys (keys.cc): each binds a key to the member of FileSystemConfig that holds its value.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "config/key.h"

namespace spate::config {

// Conversions between the members' own types and Value. A new member type needs a pair here.
template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
Value to_value(T member) {
  return static_cast<std::uint64_t>(member);
}
inline Value to_value(Duration member) { return static_cast<std::uint64_t>(member.count()); }
template <typename Tag, typename Rep>
Value to_value(StrongId<Tag, Rep> member) {
  return static_cast<std::uint64_t>(member.value);
}
inline Value to_value(const std::string& member) { return member; }
inline Value to_value(const std::vector<std::string>& member) { return member; }
inline Value to_value(const std::vector<Auth>& member) {
  std::vector<std::string> words;
  for (const Auth auth : member) words.emplace_back(auth_word(auth));
  return words;
}
inline Value to_value(const ServerRoles& member) {
  std::vector<std::string> names;
  if (member.meta) names.emplace_back("meta");
  if (member.io) names.emplace_back("io");
  if (member.block) names.emplace_back("block");
  return names;
}

template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
void from_value(const Value& value, T& member) {
  member = static_cast<T>(std::get<std::uint64_t>(value));
}
inline void from_value(const Value& value, Duration& member) {
  member = Duration(static_cast<Duration::rep>(std::get<std::uint64_t>(value)));
}
template <typename Tag, typename Rep>
void from_value(const Value& value, StrongId<Tag, Rep>& member) {
  member = StrongId<Tag, Rep>(static_cast<Rep>(std::get<std::uint64_t>(value)));
}
inline void from_value(const Value& value, std::string& member) { member = std::get<std::string>(value); }
inline void from_value(const Value& value, std::vector<std::string>& member) {
  member = std::get<std::vector<std::string>>(value);
}
inline void from_value(const Value& value, std::vector<Auth>& member) {
  member.clear();
  for (const std::string& word : std::get<std::vector<std::string>>(value)) {
    for (const Auth auth : {Auth::kKey, Auth::kNone, Auth::kTls, Auth::kMunge}) {
      if (word == auth_word(auth)) member.push_back(auth);
    }
  }
}
inline void from_value(const Value& value, ServerRoles& member) {
  member = {};
  for (const std::string& role : std::get<std::vector<std::string>>(value)) {
    if (role == "meta") member.meta = true;
    if (role == "io") member.io = true;
    if (role == "block") member.block = true;
  }
}

/// The key of a section that is there once. Returns `key` with its `get` and `set`.
template <auto kSection, auto kMember>
Key row(Key key) {
  key.get = [](const FileSystemConfig& config, std::size_t) { return to_value((config.*kSection).*kMember); };
  key.set = [](FileSystemConfig& config, std::size_t, const Value& value) {
    from_value(value, (config.*kSection).*kMember);
  };
  return key;
}

/// The key of a repeated section. `kList` is the vector, `kMember` a member of its items.
template <auto kList, auto kMember>
Key item_row(Key key) {
  key.get = [](const FileSystemConfig& config, std::size_t item) {
    using Item = typename std::remove_cvref_t<decltype(config.*kList)>::value_type;
    const auto& items = config.*kList;
    return to_value(item < items.size() ? items[item].*kMember : Item().*kMember);
  };
  key.set = [](FileSystemConfig& config, std::size_t item, const Value& value) {
    from_value(value, (config.*kList)[item].*kMember);
  };
  return key;
}

/// The key of [[servers]].
template <auto kMember>
Key server_row(Key key) {
  key.section = "servers";
  return item_row<&FileSystemConfig::servers, kMember>(key);
}

using Config = FileSystemConfig;
inline constexpr std::uint64_t kMaxText = 4096;  // characters of a value

/// The keys of block exports.
std::vector<Key> block_rows();

}  // namespace spate::config
