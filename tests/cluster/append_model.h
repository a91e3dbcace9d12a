// SPDX-License-Identifier: Apache-2.0
// AppendModel: files that are only appended to: nothing overlaps, is torn, or comes before what was there when it
// began.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace spate::cluster {

using AppendId = std::uint32_t;

/// An append that succeeded is there, whole, at the place that was told, until a crash may have taken it. One that
/// failed may be there in part, but touches no other.
class AppendModel {
 public:
  /// This file is one of them.
  void add(std::uint64_t handle) { files_.try_emplace(handle); }
  bool knows(std::uint64_t handle) const { return files_.contains(handle); }
  std::vector<std::uint64_t> handles() const;

  AppendId begin(std::uint64_t handle, std::uint64_t size);
  Bytes content(AppendId id) const;
  /// Empty unless it cannot be there.
  std::string succeeded(AppendId id, std::uint64_t start);
  /// All of these had succeeded before a sync began that has now succeeded.
  void synced(const std::vector<AppendId>& ids);
  /// The machine of an io server has crashed.
  void crashed();

  std::uint64_t crashes() const { return crashes_; }
  /// To be given to end_read().
  std::uint64_t begin_read() { return ++time_; }
  /// `data`: the file from its beginning to its end. Empty when it may be what was there since begin_read().
  std::string end_read(std::uint64_t handle, std::uint64_t begun, ByteView data) const;

 private:
  struct Append {
    std::uint64_t handle = 0;
    std::uint64_t size = 0;
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;  // 0: not yet, or it failed
    std::uint64_t start = 0;
    std::uint64_t crashes = 0;  // when it began
    bool perhaps_lost = false;
    bool durable = false;
  };
  bool is_there(const Append& append) const { return append.ended != 0 && !append.perhaps_lost; }

  std::map<std::uint64_t, std::vector<AppendId>> files_;  // those that succeeded
  std::vector<Append> appends_;
  std::uint64_t time_ = 0;
  std::uint64_t crashes_ = 0;
};

}  // namespace spate::cluster
