// SPDX-License-Identifier: Apache-2.0
// The descriptors of a program at its start: the standard ones, and how many it may open.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/result.h"

namespace spate {

/// Raises the soft limit to the hard one, or to 2^20 if that is lower: the hard limit may be infinite, and some tables
/// are sized by the soft one. Never lowers it. Returns the limit now; on failure it is as it was. Thread-safe.
Result<rlim_t> raise_open_files_limit();

/// Call it first in main(), before anything opens a descriptor. Otherwise one of our own files could get the number 0,
/// 1 or 2, and would be read or written as if it were the user's. It opens /dev/null for the wrong direction, so that
/// reading standard input and writing standard output still fail with "bad descriptor". Ends the program if /dev/null
/// cannot be opened.
inline void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int got = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest that is free: this one
    if (got != fd) std::_Exit(1);
  }
}

}  // namespace spate
