// SPDX-License-Identifier: Apache-2.0
// SpaceReserve: room on the device that nobody else can take. RocksDB cannot be opened on a full device (it begins a
// log and a manifest), and a server that cannot start could never remove a file to make room.
#pragma once

#include <cstdint>
#include <string>

namespace spate::trove {

/// One a store's folder. One thread at a time.
class SpaceReserve {
 public:
  /// The file that keeps the room, in the store's folder.
  static constexpr const char* kFileName = "spate-reserve";
  static constexpr std::uint64_t kMostBytes = 8U << 20U;

  explicit SpaceReserve(std::string folder) : folder_(std::move(folder)) {}

  /// Before the store is opened: gives the room back when the device has less than that left.
  void release_if_needed();
  /// While the store is open: keeps the room again, once the device has four times as much free. Does nothing while
  /// kept.
  void keep();
  bool kept() const { return kept_; }
  /// Less is free than RocksDB may need at once: it writes a whole buffer to a table before it gives the log's room
  /// back.
  static bool short_of_space(const std::string& folder);

 private:
  std::string path() const { return folder_ + "/" + kFileName; }

  std::string folder_;
  bool kept_ = false;
};

}  // namespace spate::trove
