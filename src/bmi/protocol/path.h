// SPDX-License-Identifier: Apache-2.0
// Path: what the protocol asks of a module for one peer.
#pragma once

#include <cstdint>

#include "bmi/protocol/frame.h"
#include "bmi/protocol/op.h"

namespace spate::bmi::protocol {

/// How much of a message had left when it was taken back.
enum class Withdrawn : std::uint8_t {
  kUnsent,   // nothing
  kAborted,  // a part; the receiver learns that the rest never comes
  kLeaving,  // a part, and the rest cannot be stopped: sent() or the end of the connection follows
};

/// Called with the module's lock held. No call blocks, and none completes an operation except flush_posted() and
/// flush_all().
class Path {
 public:
  virtual ~Path() = default;

  /// Appends a frame to those of its class. `op`: its payload is the operation's.
  virtual void push(const Header& header, Op* op) = 0;
  /// Appends a frame to those of the control class, whatever class it speaks of.
  virtual void answer(const Header& header) = 0;
  /// Makes the memory of a large message readable by the peer and appends `header`, which announces it, with the
  /// memory's place as its payload. False: it has to be copied.
  virtual bool offer(Op& /*op*/, const Header& /*header*/) { return false; }
  /// Takes back a message that is in the send queue. If nothing of it has left, `instead`, if any, leaves in its place.
  virtual Withdrawn withdraw(Op& op, const Header* instead) = 0;
  /// Sends what a post has queued for one class, or what a call has queued for any.
  virtual void flush_posted(MessageClass c) = 0;
  virtual void flush_all() = 0;
  /// Credit that has come back outside of frames. `sleeps`: nobody asks again before the peer says that there is more.
  virtual std::uint64_t fetch_credit(MessageClass /*c*/, bool /*sleeps*/) { return 0; }
  /// An operation needs the class, which is not open.
  virtual void want(MessageClass c) = 0;
  /// Begins to read op.source into the segments; Receiver::pulled() follows. False: there is no memory for it.
  virtual bool pull(Op& /*op*/) { return false; }
  /// Stops that. False: the device still writes into the segments, and the module ends the operation when it stops.
  virtual bool stop_pull(Op& /*op*/) { return true; }
  /// Drops the peer unless the memory of the cancelled operation is free in time.
  virtual void grace(Op& op) = 0;
  /// The peer is a stranger, and a message of it goes to the core.
  virtual void stranger_asked() = 0;
};

}  // namespace spate::bmi::protocol
