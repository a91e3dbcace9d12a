// SPDX-License-Identifier: Apache-2.0
// KernelCopies: the names and attributes that the kernel keeps (attr_cache=kernel), and the thread that makes the
// kernel drop them (docs/consistency.md, "The kernel's copies").
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/unique_fd.h"
#include "client/attributes/copies.h"
#include "client/session/handover_state.h"

namespace spate::fuse {

/// Attributes are dropped object by object. Names are dropped all at once by a new epoch (Linux 6.16); then the kernel
/// asks for each name again when it is used. Neither takes a lock that a request of the kernel may hold, so the thread
/// never waits for a request. Life cycle: construct -> begin() -> end(), after the last request. Before begin() nothing
/// is copied.
class KernelCopies final : public client::Copies {
 public:
  /// If an earlier process served the mount, the kernel may have copies. They are dropped at the beginning. `handover`
  /// outlives this object.
  explicit KernelCopies(client::HandoverState& handover);
  ~KernelCopies() override;
  KernelCopies(const KernelCopies&) = delete;
  KernelCopies& operator=(const KernelCopies&) = delete;

  /// Call it once. `device`: /dev/fuse, of which this object makes a descriptor of its own.
  Result<void> begin(int device);
  /// Makes the kernel drop everything and tells all callers that wait. Call it before the leases are given up. It may
  /// be called more than once.
  void end();

  Names takes_names() const override;
  bool begin_attributes(Handle object, MonoTime until) override;
  void drop_attributes(Handle object) override;
  void drop_names() override;
  bool when_dropped(UniqueFunction<void()> then) override;

 private:
  /// While this many objects wait for the thread, no attributes of others are copied.
  static constexpr std::size_t kMostWaiting = 1U << 17U;

  void work();
  void drop_all_there_is(std::unique_lock<std::mutex>& lock);
  bool anything_to_drop() const { return names_ || !attributes_.empty(); }
  template <typename Tell>
  bool tell_kernel(Tell tell);
  void drop_in_kernel(Handle object);
  void drop_whatever_it_has();
  bool new_epoch();

  client::HandoverState& handover_;
  SystemClock clock_;
  UniqueFd device_;  // set before the thread starts, and closed when it has ended
  std::thread thread_;
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable wake_;
  std::unordered_set<Handle> attributes_;  // objects whose attributes must be dropped
  bool names_ = false;                     // names must be dropped
  bool busy_ = false;                      // the thread is dropping something, or begin() was not called yet
  std::vector<UniqueFunction<void()>> waiting_;
  bool takes_names_ = false;
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace spate::fuse
