// SPDX-License-Identifier: Apache-2.0
#include "nbd/pipes.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace spate::nbd {

Pipe Pipes::take() {
  Pipe pipe;
  if (!free_.empty()) {
    pipe = std::move(free_.back());
    free_.pop_back();
    ++in_use_;
    return pipe;
  }
  std::array<int, 2> ends{};
  if (in_use_ >= kMax || ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return pipe;
  pipe.out = UniqueFd(ends[0]);
  pipe.in = UniqueFd(ends[1]);
  if (::fcntl(pipe.in.get(), F_SETPIPE_SZ, static_cast<int>(kBytes)) < static_cast<int>(kBytes)) return Pipe();
  ++in_use_;
  return pipe;
}

void Pipes::give_back(Pipe pipe) {
  --in_use_;
  free_.push_back(std::move(pipe));
}

}  // namespace spate::nbd
