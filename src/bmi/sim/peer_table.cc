// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/peer_table.h"

namespace spate::bmi::sim {

Peer& PeerTable::add(std::unique_ptr<Peer> peer) {
  const PeerId id = peer->id();
  return *peers_.emplace(id, std::move(peer)).first->second;
}

Peer* PeerTable::find(PeerId peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : it->second.get();
}

Peer* PeerTable::at(ConnectionEnd end) const {
  const auto it = by_end_.find(end);
  return it == by_end_.end() ? nullptr : it->second;
}

Peer* PeerTable::admitted(const Hello& from) const {
  const auto it = inbound_.find({from.instance, from.peer});
  return it == inbound_.end() ? nullptr : it->second;
}

Peer* PeerTable::admit(Peer& peer) {
  const auto [known, fresh] = inbound_.try_emplace({peer.origin().instance, peer.origin().peer}, &peer);
  return fresh ? nullptr : std::exchange(known->second, &peer);
}

void PeerTable::moved(Peer& peer, ConnectionEnd before) {
  const ConnectionEnd now = peer.end();
  if (before.connection != 0) by_end_.erase(before);
  if (now.connection != 0) by_end_[now] = &peer;
  if (peer.outbound()) return;
  std::erase(gone_, peer.id());
  if (now.connection == 0) gone_.push_back(peer.id());
}

std::unique_ptr<Peer> PeerTable::forget_the_oldest() {
  const PeerId id = gone_.front();
  gone_.pop_front();
  const auto it = peers_.find(id);
  const Hello& origin = it->second->origin();
  const auto known = inbound_.find({origin.instance, origin.peer});
  if (known != inbound_.end() && known->second == it->second.get()) inbound_.erase(known);
  std::unique_ptr<Peer> peer = std::move(it->second);
  peers_.erase(it);
  return peer;
}

}  // namespace spate::bmi::sim
