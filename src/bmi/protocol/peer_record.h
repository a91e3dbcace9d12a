// SPDX-License-Identifier: Apache-2.0
// PeerRecord: what a module knows of a peer, and the list of the peer's operations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"
#include "bmi/module.h"
#include "bmi/protocol/limits.h"
#include "bmi/protocol/op.h"

namespace spate::bmi::protocol {

/// The state of a peer.
enum class PeerPhase : std::uint8_t {
  kIdle,        // looked up, not connected
  kConnecting,  // its connection is being made
  kUp,
  kGone,  // inbound, not connected
};

/// The base of PeerBase. The module's lock guards it.
class PeerRecord {
 public:
  explicit PeerRecord(PeerId peer_id) : id(peer_id) {}
  PeerRecord(const PeerRecord&) = delete;
  PeerRecord& operator=(const PeerRecord&) = delete;
  virtual ~PeerRecord() = default;

  /// The peer was looked up by this URL.
  void looked_up(std::string_view its_url, Address its_address, Random& random) {
    outbound = true;
    address = its_address;
    url = std::string(its_url);
    random.fill(link_id);
  }
  /// The peer has connected to this side, to the listener of this context.
  void came_in(const LinkId& link, ContextId listener) {
    link_id = link;
    context = listener;
  }
  /// The part of Module::peer_state that is alike in every module.
  PeerState describe() const;
  /// See Module::connection.
  std::uint32_t connection() const { return state == PeerPhase::kUp ? connections : 0; }
  /// Whether the post names this connection or none (Post::connection).
  bool usable_for(const Post& post) const { return may_use(post, state == PeerPhase::kUp, connections); }

  /// The oldest operation of the peer; Op::next_of_peer leads to the others.
  Op* first_op() const { return first_op_; }
  void link_op(Op& op);
  void unlink_op(Op& op);

  const PeerId id;
  Address address;  // inbound: set by the thread that delivers, when the core has given it
  bool outbound = false;
  PeerPhase state = PeerPhase::kIdle;
  bool unauthenticated = false;  // inbound, not admitted: NetworkOptions::unauthenticated bounds what it may do
  std::string url;
  bool attempted = false;  // whether this side ever tried to connect
  std::string failure;     // why the last attempt failed; empty when it did not
  LinkId link_id{};
  ContextId context;  // inbound: of the listener
  std::uint32_t connections = 0;

 private:
  Op* first_op_ = nullptr;
  Op* last_op_ = nullptr;
};

}  // namespace spate::bmi::protocol
