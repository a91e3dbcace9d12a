// SPDX-License-Identifier: Apache-2.0
// SpaceReserve: keeps room on the device with a file. RocksDB cannot be opened on a full device, since it creates a log
// and a manifest, and a server that cannot start could never remove a file to make room.
#pragma once

#include <cstdint>
#include <string>

namespace spate::trove {

/// One for each store's folder. Not thread-safe.
class SpaceReserve {
 public:
  /// The file that keeps the room, in the store's folder.
  static constexpr const char* kFileName = "spate-reserve";
  static constexpr std::uint64_t kMostBytes = 8U << 20U;

  explicit SpaceReserve(std::string folder) : folder_(std::move(folder)) {}

  /// Call it before the store is opened. Releases the room if the device has less than that left.
  void release_if_needed();
  /// Call it while the store is open. Takes the room again once the device has four times as much free. Does nothing
  /// while it has the room.
  void keep();
  bool kept() const { return kept_; }
  /// Whether less is free than RocksDB may need at once: it writes a whole buffer to a table before it frees the log's
  /// room.
  static bool short_of_space(const std::string& folder);

 private:
  std::string path() const { return folder_ + "/" + kFileName; }

  std::string folder_;
  bool kept_ = false;
};

}  // namespace spate::trove
