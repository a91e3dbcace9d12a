// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/links.h"

#include <utility>

namespace spate::bmi::shm {

Link& Links::add(UniqueFd socket, Side side) {
  auto link = std::make_unique<Link>(std::move(socket), side);
  Link* raw = link.get();
  open_.emplace(raw, std::move(link));
  return *raw;
}

void Links::close(Link* link) {
  if (link == nullptr || link->closed) return;
  link->closed = true;
  deadlines_.clear(*link);
  state_.unauthenticated_peers.remove(link);
  polled_.remove(*link);
  // A closed descriptor stays in the epoll set while another process has it open, and the peer has the bell.
  events_.remove(link->socket());
  if (link->peer == nullptr || !link->connecting) events_.remove(link->own_bell());
  link->close();
  const auto found = open_.find(link);
  closed_.push_back(std::move(found->second));
  open_.erase(found);
}

void Links::lose_peer(Peer& peer, Errc status) {
  if (peer.state == PeerPhase::kIdle || peer.state == PeerPhase::kGone) return;
  if (peer.state == PeerPhase::kUp) ++state_.shm_counters.connections_lost;
  if (status == Errc::kProtocol) {
    ++state_.shm_counters.protocol_errors;
    state_.peer_log.peer_dropped(peer.link->remote, "protocol error");
    status = Errc::kConnectionLost;
  }
  close(peer.link);
  peer.state = peer.outbound ? PeerPhase::kIdle : PeerPhase::kGone;
  peer.disconnected(status);
  if (!peer.outbound) state_.left(peer, state_.shm_options.gone_peers_kept);
}

void Links::drop_unauthenticated(Link& link, std::string_view why) {
  ++state_.shm_counters.unauthenticated_dropped;
  state_.peer_log.unauthenticated_dropped(link.remote, why);
  if (link.peer != nullptr) return lose_peer(*link.peer, Errc::kConnectionLost);
  ++state_.shm_counters.refused;
  close(&link);
}

}  // namespace spate::bmi::shm
