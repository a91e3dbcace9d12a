// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace spate {

/// Starts a thread that runs `body`, and puts it into `thread`, which holds none. False: the system gives this user or
/// this group of processes no further thread (RLIMIT_NPROC, pids.max); then `thread` is unchanged.
template <typename Body>
[[nodiscard]] bool start_thread(std::thread& thread, Body body) {
  try {
    thread = std::thread(std::move(body));
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace spate
