// SPDX-License-Identifier: Apache-2.0
// retried: a system call that a signal does not end.
#pragma once

#include <cerrno>

namespace spate {

/// What `call` returns, once it is not interrupted; errno is its own.
template <typename Call>
auto retried(Call call) {
  auto n = call();
  while (n < 0 && errno == EINTR) n = call();
  return n;
}

}  // namespace spate
