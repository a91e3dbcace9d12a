// SPDX-License-Identifier: Apache-2.0
#include "preload/front_wait.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>

#include "preload/filter.h"
#include "preload/raw.h"

namespace spate::preload {
namespace {

constexpr short kReady = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
constexpr unsigned long kFew = 64;
constexpr unsigned long kMost = 1UL << 20U;  // more than any process may have descriptors; the kernel refuses it

Mark mark_of(int descriptor) {
  const auto number = static_cast<unsigned>(descriptor);
  return number < static_cast<unsigned>(kMaxDescriptors) ? static_cast<Mark>(front_state.marks[number]) : kForeign;
}

/// The events of a descriptor that are known without the kernel; -1: the kernel must be asked.
int known_events(const pollfd& params) {
  switch (mark_of(params.fd)) {
    case kOurs: return params.events & kReady;
    case kOwn: return POLLNVAL;  // the program has no such descriptor
    default: return -1;
  }
}

long ask_kernel(const Frame& f, pollfd* others, bool waits) {
  if (f.number == SYS_poll) return raw(SYS_poll, others, f.word[1], waits ? f.word[2] : 0);
  const timespec none{};
  return raw(SYS_ppoll, others, f.word[1], waits ? f.word[2] : reinterpret_cast<long>(&none), f.word[3], f.word[4]);
}

/// `others`: memory for all requested descriptors.
void wait(Frame& f, pollfd* others) {
  auto* const fds = reinterpret_cast<pollfd*>(f.word[0]);  // NOLINT(performance-no-int-to-ptr)
  const auto n = static_cast<unsigned long>(static_cast<unsigned>(f.word[1]));
  long ready = 0;
  for (unsigned long i = 0; i < n; ++i) {
    others[i] = fds[i];
    const int known = fds[i].fd < 0 ? -1 : known_events(fds[i]);
    if (known >= 0) others[i].fd = -1;
    if (known > 0) ++ready;
  }
  f.result = ask_kernel(f, others, ready == 0);
  if (failed(f.result)) return;
  for (unsigned long i = 0; i < n; ++i) {
    const bool asked = fds[i].fd < 0 || others[i].fd >= 0;
    fds[i].revents = asked ? others[i].revents : static_cast<short>(known_events(fds[i]));
  }
  f.result += ready;
}

}  // namespace

bool wait_for_any(Frame& frame) {
  const auto n = static_cast<unsigned long>(static_cast<unsigned>(frame.word[1]));
  if (n > kMost) return false;
  pollfd few[kFew];
  if (n <= kFew) {
    wait(frame, few);
    return true;
  }
  const long memory = raw(SYS_mmap, 0, n * sizeof(pollfd), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(memory)) {
    frame.result = -ENOMEM;
    return true;
  }
  wait(frame, reinterpret_cast<pollfd*>(memory));  // NOLINT(performance-no-int-to-ptr)
  raw(SYS_munmap, memory, n * sizeof(pollfd));
  return true;
}

}  // namespace spate::preload
