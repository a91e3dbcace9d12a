// SPDX-License-Identifier: Apache-2.0
// PeerBase: the protocol between this process and one other.
#pragma once

#include <array>
#include <cstdint>

#include "bmi/module.h"
#include "bmi/protocol/module_state.h"
#include "bmi/protocol/path.h"
#include "bmi/protocol/peer_record.h"
#include "bmi/protocol/receiver.h"
#include "bmi/protocol/sender.h"

namespace spate::bmi::protocol {

/// Each module derives its class of peers from this one and implements Path. Pinned; the module owns it. Not
/// thread-safe: the module's lock guards it. Life cycle: made by a lookup or by an inbound connection -> up() and
/// opened() -> reset() when the connection is lost, and up() again -> destroyed, when it has no operations.
///
/// The protocol is passive. The module drives its device and hands what arrives to sender() and receiver(), which queue
/// their answers in the Path. The module flushes after each call.
class PeerBase : public PeerRecord, public Path {
 public:
  PeerBase(ModuleState& module, PeerId id, std::uint64_t seed);

  /// See Module::post_send, post_recv and, if `unexpected`, post_send_unexpected.
  Result<PostResult> post(const Post& post, bool receive, bool unexpected);
  // As post(), for an operation that is filled in and belongs to this peer. True: it is complete.
  bool post_send(Op& op);
  bool post_recv(Op& op);
  void cancel(Op& op);
  /// The caller took unexpected messages of this charge. True: the credit should go back to the peer now.
  bool consumed(std::uint64_t charge);

  /// The peer is connected; `limits`: what it allows this side.
  void up(const Limits& limits);
  /// Messages of the class can leave from now on: sends those that waited for it, without a flush.
  void opened(MessageClass c);
  /// Whether an operation waits for the class to be open.
  bool waits_for(MessageClass c) const { return !waiting_[index_of(c)].empty(); }
  /// The connection is gone: every operation completes with `status`, and everything buffered is dropped. The module
  /// has closed its device. Operations whose memory the device still uses are in kHeld, and the module completes them.
  void reset(Errc status);

  /// Handles a frame without payload: kClear, kWithdraw, kNoData, kTaken, kWithdrawn. False: the peer broke the
  /// protocol.
  bool control(const Header& header);

  Sender& sender() { return sender_; }
  const Sender& sender() const { return sender_; }
  Receiver& receiver() { return receiver_; }
  const Receiver& receiver() const { return receiver_; }

 protected:
  ModuleState& module() { return module_; }

 private:
  ModuleState& module_;
  Sender sender_;
  Receiver receiver_;
  /// Operations that wait for the class to be open, in the order of their posts.
  std::array<NodeList, kClasses> waiting_;
  std::array<bool, kClasses> open_{};
};

}  // namespace spate::bmi::protocol
