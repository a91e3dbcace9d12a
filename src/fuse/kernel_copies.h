// SPDX-License-Identifier: Apache-2.0
// KernelCopies: the names and attributes that the kernel keeps (attr_cache=kernel), and the thread that has it drop
// them (docs/consistency.md, "The kernel's copies").
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

/// Attributes are dropped object by object, names all at once, by a new epoch (Linux 6.16): the kernel then asks again
/// for each when it comes by. Neither takes a lock that a request of the kernel's may hold, so the thread waits for
/// nobody. Life cycle: construct -> begin() -> end(), after the last request; before begin() nothing is copied.
class KernelCopies final : public client::Copies {
 public:
  /// Behind an earlier process of the mount the kernel may have copies: they are to be dropped from the beginning on.
  /// `handover state` outlives it.
  explicit KernelCopies(client::HandoverState& handover);
  ~KernelCopies() override;
  KernelCopies(const KernelCopies&) = delete;
  KernelCopies& operator=(const KernelCopies&) = delete;

  /// `device`: /dev/fuse, of which it takes a descriptor of its own. Once.
  Result<void> begin(int device);
  /// The kernel drops all that it has, and whoever waits is told. Before the leases are given up. More than once is
  /// legal.
  void end();

  bool takes_names() const override;
  bool begin_attributes(Handle object, MonoTime until) override;
  void drop_attributes(Handle object) override;
  void drop_names() override;
  bool when_dropped(UniqueFunction<void()> then) override;

 private:
  /// More than that wait for the thread: no others are copied meanwhile.
  static constexpr std::size_t kMostWaiting = 1U << 17U;

  void work();
  void drop_all_there_is(std::unique_lock<std::mutex>& lock);
  bool anything_to_drop() const { return names_ || !attributes_.empty(); }
  bool tell_kernel(const void* message, std::size_t size);
  void drop_in_kernel(Handle object);
  void drop_whatever_it_has();
  bool new_epoch();

  client::HandoverState& handover_;
  SystemClock clock_;
  UniqueFd device_;  // set before the thread is started, gone when it has ended
  std::thread thread_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::unordered_set<Handle> attributes_;  // to be dropped
  bool names_ = false;                     // the same
  bool busy_ = false;                      // the thread drops something, or begin() has yet to
  std::vector<UniqueFunction<void()>> waiting_;
  bool takes_names_ = false;
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace spate::fuse
