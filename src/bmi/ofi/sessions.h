// SPDX-License-Identifier: Apache-2.0
// Sessions: the connections of the ofi module, and the ends of its peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "bmi/ofi/pending_peers.h"
#include "bmi/ofi/state.h"

namespace spate::bmi::ofi {

/// The module's lock guards it. All packets of a session carry its number; each direction has a number of its own.
class Sessions {
 public:
  Sessions(State& state, PendingPeers& pending_peers) : state_(state), pending_peers_(pending_peers) {}

  /// Begins a session of this peer, with a new number.
  void open(Peer& peer);
  void close(const Peer& peer) { open_.erase(peer.local_session); }
  /// The peer of a session of this endpoint, or null.
  Peer* find(std::uint64_t session, const Wire& wire) const;
  std::size_t count() const { return open_.size(); }
  /// Sends a packet of the handshake over the peer's route. False: out of packet buffers.
  bool send(Peer& peer, const PacketHeader& header, const Bytes& payload);

  /// Ends the peer's session, and its operations with `status`. kProtocol is counted as a protocol error, and the
  /// operations end with kConnectionLost.
  void lose_peer(Peer& peer, Errc status);
  /// Loses the peers that were marked to be lost later.
  void settle() {
    state_.take_losses([this](Peer& peer, Errc status) { lose_peer(peer, status); });
  }
  /// Counts and logs that an unauthenticated peer is dropped. The caller loses the peer.
  void note_unauthenticated_dropped(const Peer& peer, std::string_view why);

 private:
  State& state_;
  PendingPeers& pending_peers_;
  std::unordered_map<std::uint64_t, Peer*> open_;  // by the number in their packets
};

/// A descriptor that becomes readable when that process of this host ends, which nothing else would report. Empty if
/// `wire` leads to other hosts.
UniqueFd watch_process(const Wire& wire, std::uint32_t pid);

}  // namespace spate::bmi::ofi
