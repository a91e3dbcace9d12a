// SPDX-License-Identifier: Apache-2.0
// LentCalls: calls of sendmsg(2) with MSG_ZEROCOPY, whose memory the kernel reads until it tells that it has not to.
#pragma once

#include <cstdint>

#include "bmi/module.h"
#include "bmi/ring.h"

namespace spate::bmi::tcp {

class SendObserver;

/// The calls of one socket that the kernel has not told of yet. Not thread-safe (the module's lock).
class LentCalls {
 public:
  /// What one look at the error queue brought.
  struct Told {
    std::uint64_t calls = 0;
    std::uint64_t copied = 0;  // of them: calls whose memory the kernel has copied after all
  };

  /// Asks the socket for the ability; false: it has none (the kernel is older, or it is no TCP socket).
  static bool enable(int socket);

  /// A call with the flag has taken memory of `op`, whose frame is at `position`. The kernel numbers such calls of a
  /// socket from 0 on: every one has to be told of here.
  void begun(OpId op, std::uint64_t position) { calls_.push(Call{op, position, false}); }
  /// Takes what the kernel tells until it tells no more; the observer hears of each call once.
  Told take(int socket, SendObserver& observer);

  bool empty() const { return calls_.empty(); }
  /// A call for the frame at `position` has not been told of.
  bool any_of(std::uint64_t position);

 private:
  struct Call {
    OpId op;
    std::uint64_t position = 0;
    bool told = false;
  };
  std::uint64_t end_calls(std::uint32_t first, std::uint32_t last, SendObserver& observer);

  Ring<Call> calls_;
};

}  // namespace spate::bmi::tcp
