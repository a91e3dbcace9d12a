// SPDX-License-Identifier: Apache-2.0
// Path: the functions of a module that the protocol calls for one peer.
#pragma once

#include <cstdint>

#include "bmi/protocol/frame.h"
#include "bmi/protocol/op.h"

namespace spate::bmi::protocol {

/// How much of a message had left when Path::withdraw() took it back.
enum class Withdrawn : std::uint8_t {
  kUnsent,   // nothing
  kAborted,  // a part; the receiver learns that the rest never comes
  kLeaving,  // a part, and the rest cannot be stopped: Sender::sent() or the end of the connection follows
};

/// Called with the module's lock held. No call blocks, and none completes an operation except flush_posted() and
/// flush_all().
class Path {
 public:
  virtual ~Path() = default;

  /// Appends a frame to the queue of its class. With `op`, the frame's payload is the operation's message.
  virtual void push(const Header& header, Op* op) = 0;
  /// Appends a frame to the queue of the control class. The frame may concern the other class.
  virtual void answer(const Header& header) = 0;
  /// Makes the memory of a large message readable by the peer, and appends the announcement `header`, whose payload
  /// says where the memory is. False: the message has to be copied.
  virtual bool offer(Op& /*op*/, const Header& /*header*/) { return false; }
  /// Takes back a message that is in the send queue. If no part of it has left, `instead`, unless null, leaves in its
  /// place.
  virtual Withdrawn withdraw(Op& op, const Header* instead) = 0;
  /// flush_posted() sends what a post has queued for one class; flush_all() sends what any call has queued.
  virtual void flush_posted(MessageClass c) = 0;
  virtual void flush_all() = 0;
  /// Returns the credit that the peer has given back in other ways than frames. `sleeps`: the protocol does not ask
  /// again until the peer says that there is more.
  virtual std::uint64_t fetch_credit(MessageClass /*c*/, bool /*sleeps*/) { return 0; }
  /// An operation needs the class, which is not open: the module connects.
  virtual void want(MessageClass c) = 0;
  /// Begins to read op.source into the operation's segments and later calls Receiver::pulled(). False: there is no
  /// memory for it.
  virtual bool pull(Op& /*op*/) { return false; }
  /// Stops pull(). False: the device still writes into the segments, and the module ends the operation when the device
  /// has stopped.
  virtual bool stop_pull(Op& /*op*/) { return true; }
  /// Drops the peer unless it releases the memory of the cancelled operation in time.
  virtual void grace(Op& op) = 0;
  /// An unauthenticated peer's message is being reported to the core.
  virtual void unauthenticated_asked() = 0;
};

}  // namespace spate::bmi::protocol
