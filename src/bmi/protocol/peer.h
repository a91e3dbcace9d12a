// SPDX-License-Identifier: Apache-2.0
// Peer: the protocol between this process and one other.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "bmi/module.h"
#include "bmi/protocol/path.h"
#include "bmi/protocol/receiver.h"
#include "bmi/protocol/sender.h"

namespace spate::bmi::protocol {

/// The state of a peer.
enum class PeerPhase : std::uint8_t {
  kIdle,        // looked up, not connected
  kConnecting,  // its connection is being made
  kUp,
  kGone,  // inbound, not connected
};

/// Each module derives its peer from it and implements Path. Pinned; the module owns it. Not thread-safe: the module's
/// lock guards it. Life cycle: made by a lookup or by an inbound connection -> up() and opened() -> reset() when the
/// connection is lost, and up() again -> destroyed, without operations.
///
/// The protocol is passive: the module drives its device, hands what arrives to sender() and receiver() and asks for
/// nothing. What they queue in return leaves with the module's next flush, which follows each call.
class Peer : public Path {
 public:
  Peer(ModuleState& module, PeerId id, std::uint64_t seed);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() override = default;

  // Posts: `op` is filled in and belongs to this peer. True when it is complete at once.
  bool post_send(Op& op);
  bool post_recv(Op& op);
  void cancel(Op& op);
  /// Unexpected messages of `charge` were taken by the caller. True when the peer is to hear of it.
  bool consumed(std::uint64_t charge);

  /// The peer is connected; `limits`: what it allows this side.
  void up(const Limits& limits);
  /// Messages of the class can leave: sends what waits for that, without a flush.
  void opened(MessageClass c);
  /// Whether an operation waits for the class to be open.
  bool waits_for(MessageClass c) const { return !waiting_[index_of(c)].empty(); }
  /// The connection is gone: every operation completes with `status`, and everything buffered is dropped. The module
  /// has closed its device. Operations whose memory the device still uses are in kHeld, and the module completes them.
  void reset(Errc status);

  /// A frame without payload: kClear, kWithdraw, kNoData, kTaken, kWithdrawn. False: the protocol does not allow it.
  bool control(const Header& header);

  Sender& sender() { return sender_; }
  const Sender& sender() const { return sender_; }
  Receiver& receiver() { return receiver_; }
  const Receiver& receiver() const { return receiver_; }

  /// What every module knows of a peer, for Module::peer_state.
  PeerState describe() const;
  /// See Module::connection.
  std::uint32_t connection() const { return state == PeerPhase::kUp ? connections : 0; }
  /// Whether the post names this connection or none (Post::connection).
  bool usable_for(const Post& post) const { return may_use(post, state == PeerPhase::kUp, connections); }

  /// All operations, oldest first.
  Op* first_op() const { return first_op_; }
  void link_op(Op& op);
  void unlink_op(Op& op);

  const PeerId id;
  Address address;  // inbound: set when the core gave it, by the thread that delivers
  bool outbound = false;
  PeerPhase state = PeerPhase::kIdle;
  bool stranger = false;  // inbound, not admitted: NetworkOptions::strangers bounds what it may do
  std::string url;
  bool attempted = false;  // to connect, ever
  std::string failure;     // why the last attempt failed; empty when it did not
  LinkId link_id{};
  ContextId context;  // inbound: of the listener
  std::uint32_t connections = 0;

 protected:
  ModuleState& module() { return module_; }

 private:
  ModuleState& module_;
  Sender sender_;
  Receiver receiver_;
  std::array<NodeList, kClasses> waiting_;  // for the class to be open, in the order of their posts
  std::array<bool, kClasses> open_{};
  Op* first_op_ = nullptr;
  Op* last_op_ = nullptr;
};

}  // namespace spate::bmi::protocol
