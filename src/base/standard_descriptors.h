// SPDX-License-Identifier: Apache-2.0
// Opens standard input, output and error where a program was started without them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace spate {

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
