// SPDX-License-Identifier: Apache-2.0
// retried: repeats a system call that a signal has interrupted.
#pragma once

#include <cerrno>

namespace spate {

/// Repeats `call` while it fails with EINTR. Returns what the last one returned, with its errno.
template <typename Call>
auto retried(Call call) {
  auto n = call();
  while (n < 0 && errno == EINTR) n = call();
  return n;
}

}  // namespace spate
