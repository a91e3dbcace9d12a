// SPDX-License-Identifier: Apache-2.0
// Ring: an io_uring with the best flags that the kernel allows, and an eventfd for its completions.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::trove {

/// One io_uring.
///
/// Life cycle: make() by any thread -> attach() by the thread that is to use it -> entry(), submit() and reap() by that
/// thread -> destroyed when idle, by any thread. A ring never changes its owner: a thread that takes over makes a new
/// ring.
///
/// Threads: only the owner calls the functions below attach(). Completions make `event_fd` readable while events are
/// on.
class Ring {
 public:
  /// Tries, in this order: SINGLE_ISSUER | DEFER_TASKRUN (Linux 6.1), COOP_TASKRUN (5.19), no flags. kNotSupported: the
  /// kernel or a container's profile refuses io_uring, or memory for it. `event_fd` becomes readable at completions
  /// while events are on; not owned.
  /// `skip_setups` leaves out the first of them, to test the others.
  static Result<std::unique_ptr<Ring>> make(unsigned entries, int event_fd, std::size_t skip_setups = 0);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring();

  /// Makes the calling thread the owner, if there is none. False: another thread is, or the kernel refused.
  bool attach();
  bool owned_by_caller() const { return owner_ == std::this_thread::get_id(); }

  /// Registers (and pins) memory under `slot` (< kRegions), for fixed reads and writes. Called by the owner. An empty
  /// view unregisters it. Returns 0, or -errno.
  static constexpr unsigned kRegions = 64;
  int set_region(unsigned slot, MutableByteView memory);

  /// A cleared entry to fill; submits what is queued when the queue is full. Null when the kernel takes no more now.
  io_uring_sqe* entry();
  void submit();
  /// Calls `handle(user_data, result)` for up to `max` completions.
  template <typename Handle>
  std::size_t reap(std::size_t max, Handle handle);
  /// Submits and blocks until there is a completion.
  void wait_one();

  /// Off while nobody sleeps, so that completions cost no eventfd write.
  void set_events(bool on);
  /// Whether there is a completion, or work that the kernel must finish in this thread.
  bool pending() const;

  /// "single_issuer,defer_taskrun", ...
  const std::string& flags_text() const { return flags_text_; }

 private:
  Ring() = default;
  io_uring ring_{};
  bool disabled_ = false;  // made with R_DISABLED: enabled by its owner
  bool events_on_ = true;
  bool has_regions_ = false;
  std::thread::id owner_;
  std::string flags_text_;
};

template <typename Handle>
std::size_t Ring::reap(std::size_t max, Handle handle) {
  std::size_t n = 0;
  // With the TASKRUN flag peek enters the kernel only when there is work that waits for this thread.
  for (io_uring_cqe* cqe = nullptr; n < max && io_uring_peek_cqe(&ring_, &cqe) == 0; ++n) {
    void* const user = io_uring_cqe_get_data(cqe);
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    handle(user, result);
  }
  return n;
}

}  // namespace spate::trove
