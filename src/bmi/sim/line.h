// SPDX-License-Identifier: Apache-2.0
// Line: the functions of a peer that its two halves call. Host: the parts of the module that they use.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "bmi/module.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/packet.h"

namespace spate::bmi::sim {

/// The parts of the module that a peer uses. They outlive it.
struct Host {
  Fabric& fabric;
  NetworkInterface interface;
  std::uint64_t instance = 0;
  const NetworkOptions* options = nullptr;
  Sink* sink = nullptr;
  std::vector<Outcome>& outbox;  // the module reports them when the core may call back
};

/// Operations in the order of their posts.
using OpQueue = std::map<std::uint64_t, OpId>;
/// A message and its receive have the same key.
using MatchKey = std::pair<MessageClass, Tag>;

/// The connection of a peer, as its Sender and Receiver see it. They call it within posts and when packets come. No
/// call reaches the core: ended operations go to Host::outbox. drop() and violation() end the connection and all
/// operations before they return, so the caller must use none of them afterwards. One thread, that of the fabric.
class Line {
 public:
  virtual ~Line() = default;
  virtual bool connected() const = 0;
  /// Begins a post. Connects if this side can, and returns the operation's order. 0: it cannot be posted.
  virtual std::uint64_t begin_post() = 0;
  /// Sends a packet, with the credit that is owed. Call it only while connected() holds.
  virtual void transmit(Packet packet) = 0;
  /// Ends the connection from this side. All posted operations complete with `status`.
  virtual void drop(Errc status) = 0;
  /// The peer has broken the protocol.
  virtual void violation() = 0;

 protected:
  Line() = default;
  Line(const Line&) = default;
  Line& operator=(const Line&) = default;
};

/// The pool of a class. `control` is the pool of that kind for the control class.
constexpr Pool pool_of(MessageClass c, Pool control) {
  return c == MessageClass::kControl ? control : static_cast<Pool>(control + 1);
}

}  // namespace spate::bmi::sim
