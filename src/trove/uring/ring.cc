// SPDX-License-Identifier: Apache-2.0
#include "trove/uring/ring.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>

#include "base/check.h"

namespace spate::trove {
namespace {

struct Setup {
  unsigned flags;
  const char* text;
};

// DEFER_TASKRUN alone is EINVAL; R_DISABLED lets the ring be made on one thread and owned by another.
constexpr Setup kSetups[] = {
    {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
     "single_issuer,defer_taskrun"},
    {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, "coop_taskrun"},
    {0, "plain"},
};

/// Completions that may wait in the ring, for each entry of the submission queue.
constexpr unsigned kCompletionsPerEntry = 8;

/// liburing 2.3 declares io_uring_enable_rings, but Debian's library does not export it.
bool enable(const io_uring& ring) {
  return ::syscall(SYS_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0U) == 0;
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::make(unsigned entries, int event_fd, std::size_t skip_setups) {
  int error = EINVAL;
  for (const Setup& setup : std::span(kSetups).subspan(std::min(skip_setups, std::size(kSetups)))) {
    std::unique_ptr<Ring> made(new Ring());
    io_uring_params params{};
    params.flags = setup.flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = entries * kCompletionsPerEntry;
    error = -io_uring_queue_init_params(entries, &made->ring_, &params);
    if (error != 0) {
      made->ring_.ring_fd = -1;
      continue;
    }
    made->disabled_ = (setup.flags & IORING_SETUP_R_DISABLED) != 0;
    made->flags_text_ = setup.text;
    error = -io_uring_register_eventfd(&made->ring_, event_fd);
    if (error == 0) return made;
  }
  return Error(Errc::kNotSupported, "io_uring: " + errno_error(error, "setup").context());
}

Ring::~Ring() {
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

bool Ring::attach() {
  if (owner_ != std::thread::id()) return owned_by_caller();
  if (disabled_ && !enable(ring_)) return false;
  owner_ = std::this_thread::get_id();
  return true;
}

int Ring::set_region(unsigned slot, MutableByteView memory) {
  if (!has_regions_) {
    io_uring_rsrc_register table{};
    table.nr = kRegions;
    table.flags = IORING_RSRC_REGISTER_SPARSE;
    if (::syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_BUFFERS2, &table, sizeof table) < 0)
      return -errno;
    has_regions_ = true;
  }
  const iovec region{memory.empty() ? nullptr : memory.data(), memory.size()};
  io_uring_rsrc_update2 update{};
  update.offset = slot;
  update.data = reinterpret_cast<std::uint64_t>(&region);
  update.nr = 1;
  const long done =
      ::syscall(SYS_io_uring_register, ring_.ring_fd, IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof update);
  return done < 0 ? -errno : 0;
}

io_uring_sqe* Ring::entry() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe != nullptr) return sqe;
  submit();
  return io_uring_get_sqe(&ring_);
}

void Ring::submit() {
  // EAGAIN, EBUSY: no memory, or too many completions now. The entries stay queued and go with the next call.
  if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
}

void Ring::wait_one() { io_uring_submit_and_wait(&ring_, 1); }

void Ring::set_events(bool on) {
  if (on == events_on_) return;
  SPATE_CHECK(io_uring_cq_eventfd_toggle(&ring_, on) == 0);
  events_on_ = on;
  // The kernel looks at the switch after it has announced a completion. So set the switch before pending() looks for
  // completions.
  if (on) std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Ring::pending() const {
  if (io_uring_cq_ready(&ring_) > 0) return true;
  const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_ACQUIRE);
  return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

}  // namespace spate::trove
