// SPDX-License-Identifier: Apache-2.0
// A direct system call. It bypasses the C library, and with it this library's own hooks. It does not change errno.
#pragma once

#include <sys/syscall.h>

namespace spate::preload {

/// What the kernel returns: a value, or -errno in -4095 .. -1.
template <typename... Words>
inline long raw(long number, Words... words) {
  static_assert(sizeof...(Words) <= 6);
  const long w[7] = {(long)words..., 0};  // NOLINT: pointers and numbers alike
  constexpr auto n = sizeof...(Words);
  long result = number;
  register long r10 asm("r10") = n > 3 ? w[3] : 0;
  register long r8 asm("r8") = n > 4 ? w[4] : 0;
  register long r9 asm("r9") = n > 5 ? w[5] : 0;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(w[0]), "S"(n > 1 ? w[1] : 0), "d"(n > 2 ? w[2] : 0), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline bool failed(long result) { return result < 0 && result >= -4095; }

}  // namespace spate::preload
