// SPDX-License-Identifier: Apache-2.0
// RangeLocks: orders the changes of one group's datafiles that overlap.
#pragma once

#include <coroutine>
#include <list>
#include <map>

#include "base/result.h"
#include "job/executor.h"
#include "job/stop.h"
#include "model/ids.h"

namespace spate::io {

/// Locks ranges of whole granules. A request waits for earlier ones that overlap with it, even for those that wait
/// themselves. Disjoint ones run side by side. Not thread-safe: one executor. Pinned. It outlives its holds.
class RangeLocks {
 public:
  static constexpr std::uint64_t kGranule = 64 * 1024;

  /// The bytes begin..end of a datafile; end is exclusive. A default range is the whole datafile.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = ~std::uint64_t{0};
  };

 private:
  class Awaiter;
  struct Node {
    Range range;
    Awaiter* waiter = nullptr;  // null: held
  };
  using Lane = std::list<Node>;  // of one datafile, in the order of arrival

 public:
  explicit RangeLocks(job::Executor& executor) : executor_(executor) {}
  RangeLocks(const RangeLocks&) = delete;
  RangeLocks& operator=(const RangeLocks&) = delete;
  ~RangeLocks() { SPATE_CHECK(lanes_.empty()); }

  /// Move-only; the destructor releases the range.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), datafile_(other.datafile_), node_(other.node_) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(locks_, other.locks_);
      std::swap(datafile_, other.datafile_);
      std::swap(node_, other.node_);
      return *this;
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() {
      if (locks_ != nullptr) locks_->release(datafile_, node_);
    }

   private:
    friend class RangeLocks;
    Hold(RangeLocks& locks, DatafileId datafile, Lane::iterator node)
        : locks_(&locks), datafile_(datafile), node_(node) {}
    RangeLocks* locks_ = nullptr;
    DatafileId datafile_;
    Lane::iterator node_;
  };

  /// Yields a Result<Hold>; if stopped first, the token's reason.
  auto take(DatafileId datafile, Range range, job::StopToken stop) { return Awaiter(*this, datafile, range, stop); }
  bool idle() const { return lanes_.empty(); }

 private:
  class Awaiter {
   public:
    Awaiter(RangeLocks& locks, DatafileId datafile, Range range, job::StopToken stop);
    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle);
    Result<Hold> await_resume();

   private:
    friend class RangeLocks;
    void give_up();
    RangeLocks& locks_;
    const DatafileId datafile_;
    const Range range_;
    job::StopToken stop_;
    job::StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    Lane::iterator node_;
    bool granted_ = false;
  };

  static bool is_free(const Lane& lane, Lane::const_iterator node);
  void release(DatafileId datafile, Lane::iterator node);
  void serve(Lane& lane);

  job::Executor& executor_;
  std::map<DatafileId, Lane> lanes_;
};

}  // namespace spate::io
