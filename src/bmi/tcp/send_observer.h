// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bmi/protocol/op.h"

namespace spate::bmi::tcp {

using protocol::Op;

/// Learns which operations have left.
class SendObserver {
 public:
  virtual ~SendObserver() = default;
  /// The operation's whole frame was taken by the kernel: its memory may be reused, unless calls that it was lent to
  /// (Op::uses) have not ended.
  virtual void sent(Op& op) = 0;
  /// The kernel no longer reads the memory for one of these calls. The operation may have ended already.
  virtual void told(OpId op) = 0;
};

}  // namespace spate::bmi::tcp
