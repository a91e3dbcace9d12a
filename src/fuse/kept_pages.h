// SPDX-License-Identifier: Apache-2.0
// KeptPages: which files' pages the kernel still holds as they are on the servers.
#pragma once

#include <list>
#include <mutex>
#include <unordered_map>

#include "model/attributes.h"

namespace spate::fuse {

/// Close-to-open: an open keeps the kernel's pages only when the file is as it was at the last open through this mount
/// and nobody has it open for writing. Remembers at most kMost files, the ones opened last. Thread-safe.
class KeptPages {
 public:
  static constexpr std::size_t kMost = 65536;

  /// Whether the pages from the last open may stay; from now on `attributes` is what they must agree with.
  bool still_true(const Attributes& attributes);
  /// The file is being written: the next open drops its pages.
  void forget(Handle handle);

 private:
  struct Seen {
    WallTime mtime;
    std::uint64_t size = 0;
    std::uint64_t change_sum = 0;
    std::list<Handle>::iterator place;  // in recent_
    bool same(const Attributes& a) const { return mtime == a.mtime && size == a.size && change_sum == a.change_sum; }
  };
  void erase(Handle handle);

  std::mutex mutex_;
  std::list<Handle> recent_;  // the one opened last is first
  std::unordered_map<Handle, Seen> seen_;
};

}  // namespace spate::fuse
