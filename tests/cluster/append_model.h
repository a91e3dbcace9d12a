// SPDX-License-Identifier: Apache-2.0
// AppendModel: the contents of files that are only appended to. Appends must not overlap, be torn, or lie before the
// end that the file had when they began.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace spate::cluster {

using AppendId = std::uint32_t;

/// A successful append lies whole at the offset that its reply told, until a crash may have lost it. A failed append
/// may lie there in part, but must not overlap another append.
class AppendModel {
 public:
  /// From now on the file `handle` is only appended to.
  void add(std::uint64_t handle) { files_.try_emplace(handle); }
  bool knows(std::uint64_t handle) const { return files_.contains(handle); }
  std::vector<std::uint64_t> handles() const;

  AppendId begin(std::uint64_t handle, std::uint64_t size);
  Bytes content(AppendId id) const;
  /// Call it when an append has succeeded at `start`. Returns what is wrong with that; empty: nothing.
  std::string succeeded(AppendId id, std::uint64_t start);
  /// Call it when a sync has succeeded. All of these appends had succeeded before the sync began.
  void synced(const std::vector<AppendId>& ids);
  /// Call it when an io server's machine has crashed.
  void crashed();

  std::uint64_t crashes() const { return crashes_; }
  /// Returns the time of the read's beginning, for end_read().
  std::uint64_t begin_read() { return ++time_; }
  /// `data`: the whole file. Returns what is wrong; empty: the file may have held this at some time since `begun`.
  std::string end_read(std::uint64_t handle, std::uint64_t begun, ByteView data) const;

 private:
  struct Append {
    std::uint64_t handle = 0;
    std::uint64_t size = 0;
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;  // 0: it has not ended, or has failed
    std::uint64_t start = 0;
    std::uint64_t crashes = 0;  // how many crashes there had been when it began
    bool perhaps_lost = false;
    bool durable = false;
  };
  bool is_there(const Append& append) const { return append.ended != 0 && !append.perhaps_lost; }

  std::map<std::uint64_t, std::vector<AppendId>> files_;  // the appends of each file that succeeded
  std::vector<Append> appends_;
  std::uint64_t time_ = 0;
  std::uint64_t crashes_ = 0;
};

}  // namespace spate::cluster
