// SPDX-License-Identifier: Apache-2.0
// PageOrder: keeps reads from filling the kernel's pages with bytes from before a write.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "job/event.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::fuse {

/// write(2) puts its bytes into the kernel's pages first, and then sends them to the mount. If the pages are dropped in
/// between (by an open, or for a lock) and a program reads the place again, the kernel asks the mount for it. An answer
/// with the bytes from before the write would stay in the pages, and a change through a map would write it back.
///
/// So a read waits for the writes of the same bytes that have come before it. If the read came first, it cannot be told
/// whether the kernel had the bytes of the write already. Then the write is doubtful(), and its pages must be dropped.
///
/// Thread-safe, except that before_read() runs on the client's executor.
class PageOrder {
 public:
  /// The bytes from `first` up to `end`.
  struct Span {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    static Span of(std::uint64_t first, std::uint64_t size) { return {first, first + size}; }
    bool overlaps(Span other) const { return first < other.end && other.first < end; }
  };

 private:
  struct UnderWay {
    Handle handle;
    Span span;
    std::uint64_t number = 0;
    std::shared_ptr<job::Event> applied;  // if a read waits for it
  };
  using Writes = std::list<UnderWay>;

 public:
  /// One write request. It is under way until applied() or its end. The PageOrder outlives it.
  class Write {
   public:
    /// `caller`: the thread that waits for the answer. `sent_again`: an earlier process of the mount has got it, too.
    Write(PageOrder& order, Handle handle, Span span, pid_t caller, bool sent_again);
    ~Write() { applied(); }
    Write(const Write&) = delete;
    Write& operator=(const Write&) = delete;
    /// Reads return its bytes from now on, or it has failed. Call it before the answer.
    void applied();
    /// The kernel sends pages that were changed through a map. Another write may have begun before its answer.
    void is_of_map() { of_map_ = true; }
    /// Whether its pages must be dropped.
    bool doubtful() const { return doubtful_; }

   private:
    PageOrder& order_;
    Writes::iterator entry_;
    bool doubtful_ = false;
    bool ended_ = false;
    bool of_map_ = false;
  };

  PageOrder(Clock& clock, job::Executor& executor) : clock_(clock), executor_(executor) {}
  PageOrder(const PageOrder&) = delete;
  PageOrder& operator=(const PageOrder&) = delete;

  /// Call it before the kernel drops pages of the file. `all`: none are left that were read before.
  void dropping(Handle handle, bool all);
  /// The kernel has not dropped the pages after all. Any of them may have been read before.
  void not_dropped(Handle handle);
  /// Call it before the pages of a doubtful write are dropped. They make later writes doubtful for half as long as the
  /// last time, so that two threads that read and write the same page come to an end with it.
  void dropping_again(Handle handle);
  /// Whether a write of these bytes is under way.
  bool under_way(Handle handle, Span span) const;
  /// Call it before a read. Returns when all writes of these bytes that had begun before the call are applied.
  job::Task<void> before_read(Handle handle, Span span, pid_t caller);

 private:
  /// Pages of a file were dropped.
  struct Dropped {
    Handle handle;
    Duration doubt{};  // how long later writes may be doubtful
    MonoTime until{};
    Span read;  // covers all reads since
    pid_t reader = 0;
    bool more_readers = false;
  };

  Dropped& place(Handle handle);
  std::shared_ptr<job::Event> write_before(Handle handle, Span span, std::uint64_t number);

  Clock& clock_;
  job::Executor& executor_;
  mutable std::mutex mutex_;  // guards the other members
  Writes writes_;
  std::uint64_t next_ = 1;
  std::array<Dropped, 256> dropped_{};  // a later file may take the place of an earlier one
};

}  // namespace spate::fuse
