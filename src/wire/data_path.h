// SPDX-License-Identifier: Apache-2.0
// The data paths (docs/data-paths.md): their numbers in messages, and their names for people.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spate::wire {

/// The path by which a server moves the data (docs/data-paths.md).
enum class DataPath : std::uint8_t {
  kAutomatic = 0,
  kBuffered = 1,
  kCached = 2,
  kDirect = 3,
  kBypass = 4,
  kPeerToPeer = 5
};

/// The names by number, as in spate.toml, on command lines, in metrics and in answers of `spate explain`.
inline constexpr std::array<std::string_view, 6> kDataPathNames = {"auto",   "buffered", "cached",
                                                                   "direct", "bypass",   "p2p"};

/// False for a number from the network that this version does not know.
constexpr bool is_known(DataPath path) { return static_cast<std::size_t>(path) < kDataPathNames.size(); }

constexpr std::string_view name_of(DataPath path) {
  return is_known(path) ? kDataPathNames[static_cast<std::size_t>(path)] : "unknown";
}

constexpr std::optional<DataPath> data_path_of(std::string_view name) {
  for (std::size_t i = 0; i < kDataPathNames.size(); ++i) {
    if (kDataPathNames[i] == name) return static_cast<DataPath>(i);
  }
  return std::nullopt;
}

/// "auto, buffered, ... or p2p".
inline std::string all_data_paths() {
  std::string all;
  for (std::size_t i = 0; i < kDataPathNames.size(); ++i) {
    if (i > 0) all += i + 1 == kDataPathNames.size() ? " or " : ", ";
    all += kDataPathNames[i];
  }
  return all;
}

}  // namespace spate::wire
