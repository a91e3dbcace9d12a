// SPDX-License-Identifier: Apache-2.0
// Pipes: data received into a pipe goes to a file without passing through this process's memory.
#pragma once

#include <cstddef>
#include <vector>

#include "base/unique_fd.h"

namespace spate::nbd {

/// Both ends, non-blocking. Empty: no pipe.
struct Pipe {
  UniqueFd out;  // to read from
  UniqueFd in;   // to write to
  explicit operator bool() const { return static_cast<bool>(out); }
};

/// A pool of empty pipes of kBytes each. One executor.
class Pipes {
 public:
  /// Capacity of each, bytes; less if the data comes in small pieces.
  static constexpr std::size_t kBytes = 1UL << 20U;
  /// Empty if too many are in use, or the kernel allows this user no more.
  Pipe take();
  /// Call it only if the pipe is empty again. Otherwise destroy the pipe and call gone().
  void give_back(Pipe pipe);
  void gone() { --in_use_; }

 private:
  static constexpr std::size_t kMax = 48;
  std::size_t in_use_ = 0;
  std::vector<Pipe> free_;
};

}  // namespace spate::nbd
