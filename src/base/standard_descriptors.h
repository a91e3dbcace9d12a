// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error that a program was started without.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace spate {

/// First thing in main(), before anything opens a descriptor: a missing 0, 1 or 2 would become one of our own, and be
/// read or written as if it were the user's. What is put there is /dev/null the wrong way round, so that reading
/// standard input or writing standard output goes on failing as "bad descriptor". Ends the program where even that
/// cannot be had.
inline void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int got = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest that is free: this one
    if (got != fd) std::_Exit(1);
  }
}

}  // namespace spate
