// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bmi/protocol/op.h"

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

}  // namespace spate::bmi::tcp
