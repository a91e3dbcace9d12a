// SPDX-License-Identifier: Apache-2.0
// KeptPages: which files' pages the kernel still holds as they are on the servers.
#pragma once

#include <list>
#include <mutex>
#include <unordered_map>

#include "model/attributes.h"

namespace spate::fuse {

/// Close-to-open: an open keeps the kernel's pages only when nobody has the file open for writing and its data is as it
/// was at the last open through this mount, or at the end of the last writing that the pages have followed. Remembers
/// at most kMost files, the ones opened or written last. Thread-safe.
class KeptPages {
 public:
  static constexpr std::size_t kMost = 65536;

  /// Whether the pages from the last open may stay; from now on `attributes` is what they must agree with.
  bool still_true(const Attributes& attributes);
  /// This mount alone has written the file since an open that dropped or kept its pages, all of it through the kernel's
  /// pages, and `attributes` is what came of it. Nothing when the size is not known: somebody still writes, or the meta
  /// server has to ask the datafiles.
  void agree(const Attributes& attributes);
  /// The file is being written: the next open drops its pages.
  void forget(Handle handle);

 private:
  struct Seen {
    std::uint64_t size = 0;
    std::uint64_t change_sum = 0;       // grows with every change of data, whatever times are set
    std::list<Handle>::iterator place;  // in recent_
    bool same(const Attributes& a) const { return size == a.size && change_sum == a.change_sum; }
  };
  void note(const Attributes& attributes);
  void erase(Handle handle);

  std::mutex mutex_;
  std::list<Handle> recent_;  // the last one is first
  std::unordered_map<Handle, Seen> seen_;
};

}  // namespace spate::fuse
