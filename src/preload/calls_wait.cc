// SPDX-License-Identifier: Apache-2.0
// select and epoll, for which a file is always ready. front_wait.cc has poll.
#include <sys/select.h>

#include "preload/calls.h"

namespace spate::preload {
namespace {

/// Takes descriptors of Spate out of `set` and counts them in `ours`.
long take_out(fd_set* set, int n, fd_set& ours) {
  FD_ZERO(&ours);
  if (set == nullptr) return 0;
  long count = 0;
  for (int number = next_descriptor(0); number >= 0 && number < n; number = next_descriptor(number + 1)) {
    if (!FD_ISSET(number, set)) continue;
    FD_CLR(number, set);
    FD_SET(number, &ours);
    ++count;
  }
  return count;
}

void put_back(fd_set* set, int n, const fd_set& ours) {
  for (int number = 0; set != nullptr && number < n; ++number) {
    if (FD_ISSET(number, &ours)) FD_SET(number, set);
  }
}

Reply select(Frame& f) {
  const int n = std::min(fd(f, 0), FD_SETSIZE);
  auto* const in = memory<fd_set>(f, 1);
  auto* const out = memory<fd_set>(f, 2);
  fd_set ours_in;
  fd_set ours_out;
  fd_set ours_error;
  const long ready = take_out(in, n, ours_in) + take_out(out, n, ours_out);
  take_out(memory<fd_set>(f, 3), n, ours_error);
  // The kernel waits with the program's signals unblocked, because a handler may end the wait.
  if (ready == 0) return kToKernel;
  timeval none{};
  timespec none_exact{};
  f.word[4] = f.number == SYS_select ? reinterpret_cast<long>(&none) : reinterpret_cast<long>(&none_exact);
  if (f.number == SYS_pselect6) f.word[5] = 0;  // the call does not wait, so no handler runs now
  const long found = ask_kernel(f);
  if (failed(found)) return found;
  put_back(in, n, ours_in);
  put_back(out, n, ours_out);
  return found + ready;
}

/// Refuses files, because the kernel does.
Reply epoll_ctl(Frame& f) { return description_of(fd(f, 2)) == nullptr ? kToKernel : Reply(minus(EPERM)); }

}  // namespace

Handler wait_handler(long number) {
  switch (number) {
    case SYS_select:
    case SYS_pselect6: return select;
    case SYS_epoll_ctl: return epoll_ctl;
    default: return nullptr;
  }
}

}  // namespace spate::preload
