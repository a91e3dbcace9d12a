// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/sessions.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace spate::bmi::ofi {

void Sessions::open(Peer& peer) {
  peer.local_session = state_.random.next() | 1U;
  open_[peer.local_session] = &peer;
  peer.heard = state_.clock.now();
  peer.pings = 0;
  peer.doomed = false;
  peer.stuck_since = MonoTime::never();
  pending_peers_.sweep_at(MonoTime());
}

Peer* Sessions::find(std::uint64_t session, const Wire& wire) const {
  const auto found = open_.find(session);
  return found == open_.end() || found->second->wire != &wire ? nullptr : found->second;
}

bool Sessions::send(Peer& peer, const PacketHeader& header, const Bytes& payload) {
  PacketBuffer* buffer = peer.wire->take_buffer();
  if (buffer == nullptr) return false;
  std::byte* const data = Wire::data_of(*buffer);
  encode(header, payload.size(), data);
  std::ranges::copy(payload, data + kHeaderSize);
  ++state_.ofi_counters.packets_sent;
  if (!peer.wire->send(*peer.route, *buffer, kHeaderSize + payload.size())) pending_peers_.keep_turning(peer);
  return true;
}

void Sessions::lose_peer(Peer& peer, Errc status) {
  if (peer.state == PeerPhase::kIdle || peer.state == PeerPhase::kGone) return;
  const bool was_up = peer.state == PeerPhase::kUp;
  if (was_up) ++state_.ofi_counters.connections_lost;
  if (status == Errc::kProtocol) {
    ++state_.ofi_counters.protocol_errors;
    state_.peer_log.peer_dropped(peer.url, "protocol error");
    status = Errc::kConnectionLost;
  }
  if (was_up) {
    peer.say_bye();
  } else if (peer.route != nullptr) {
    peer.route->failed = true;  // a hello that has not left yet must not leave any more
  }
  close(peer);
  state_.unauthenticated_peers.remove(&peer);
  pending_peers_.forget(peer);
  peer.state = peer.outbound ? PeerPhase::kIdle : PeerPhase::kGone;
  peer.process.reset();
  Wire* const wire = peer.wire;
  peer.disconnected(status);
  if (wire != nullptr && wire->parting())
    pending_peers_.begin_parting(std::chrono::milliseconds(state_.ofi_options.cancel_grace_ms));
  if (!peer.outbound) state_.left(peer, state_.ofi_options.gone_peers_kept);
}

void Sessions::note_unauthenticated_dropped(const Peer& peer, std::string_view why) {
  ++state_.ofi_counters.unauthenticated_dropped;
  state_.peer_log.unauthenticated_dropped(peer.url, why);
}

UniqueFd watch_process(const Wire& wire, std::uint32_t pid) {
  if (!wire.on_this_host() || pid == 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

}  // namespace spate::bmi::ofi
