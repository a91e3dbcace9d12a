// SPDX-License-Identifier: Apache-2.0
// ZeroCopySends: calls of sendmsg(2) with MSG_ZEROCOPY. The kernel reads their memory until it reports their end.
// SendObserver: learns of it.
#pragma once

#include <cstdint>

#include "bmi/module.h"
#include "bmi/protocol/op.h"
#include "bmi/ring.h"

namespace spate::bmi::tcp {

using protocol::Op;

/// Learns which operations have left, and which memory the kernel needs no more.
class SendObserver {
 public:
  virtual ~SendObserver() = default;
  /// The kernel has taken the operation's whole frame. Its memory may be used again, unless calls to which it was lent
  /// (Op::uses) have not ended.
  virtual void sent(Op& op) = 0;
  /// The kernel no longer reads the memory for one of these calls. The operation may have ended already.
  virtual void told(OpId op) = 0;
};

/// The calls of one socket whose end the kernel has not reported yet. Not thread-safe: the module's lock guards it.
class ZeroCopySends {
 public:
  /// The reports of one read of the error queue.
  struct Reports {
    std::uint64_t calls = 0;
    std::uint64_t copied = 0;  // those of the calls whose memory the kernel copied after all
  };

  /// Enables MSG_ZEROCOPY on the socket. False: the socket does not support it (an older kernel, or no TCP socket).
  static bool enable(int socket);

  /// A call with the flag has taken memory of `op`, whose frame is at `position`. The kernel numbers such calls of a
  /// socket from 0 on, so every one of them must be recorded here.
  void begun(OpId op, std::uint64_t position) { calls_.push(Call{op, position, false}); }
  /// Reads all reports of the kernel, and tells the observer of each call once.
  Reports take(int socket, SendObserver& observer);

  bool empty() const { return calls_.empty(); }
  /// Whether a call for the frame at `position` has not been reported yet.
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
