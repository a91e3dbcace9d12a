// SPDX-License-Identifier: Apache-2.0
// PeerTable: the other processes that a process of the simulation knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "bmi/sim/peer.h"

namespace spate::bmi::sim {

/// Finds a peer by its number, by its end of a connection and, if it has connected to this process, by the process that
/// it is. Not thread-safe; the caller serialises calls. A peer lives until forget_the_oldest() returns it.
class PeerTable {
 public:
  /// The number of the next peer.
  PeerId next_id() { return PeerId{++next_peer_}; }
  Peer& add(std::unique_ptr<Peer> peer);

  /// Null if there is none.
  Peer* find(PeerId peer) const;
  Peer* at(ConnectionEnd end) const;
  /// The admitted peer that is the process which sent `from`; null if there is none.
  Peer* admitted(const Hello& from) const;
  /// From now on admitted() finds this peer. Returns the peer that it found before; null if none.
  Peer* admit(Peer& peer);

  /// Call it after the peer's connection has begun or ended. `before`: its end until then.
  void moved(Peer& peer, ConnectionEnd before);
  /// All connections are gone.
  void clear_ends() { by_end_.clear(); }
  template <typename Visit>
  void for_each(Visit visit) {
    for (const auto& [id, peer] : peers_) visit(*peer);
  }

  /// Inbound peers without a connection.
  std::size_t gone() const { return gone_.size(); }
  /// Takes out the one of them whose connection ended first. There must be one.
  std::unique_ptr<Peer> forget_the_oldest();

 private:
  std::uint64_t next_peer_ = 0;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  std::map<ConnectionEnd, Peer*> by_end_;
  /// The admitted peers. The key is the instance and the connector's number for this side.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Peer*> inbound_;
  std::deque<PeerId> gone_;  // inbound peers without a connection, the oldest first
};

}  // namespace spate::bmi::sim
