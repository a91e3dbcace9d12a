// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/acceptance.h"

#include <unistd.h>

#include <algorithm>

namespace spate::bmi::ofi {

void Acceptance::on_hello(Endpoint& endpoint, ByteView payload) {
  const std::optional<Hello> hello = decode_hello(payload);
  if (!hello || !endpoint.listens) {
    ++state_.ofi_counters.protocol_errors;
    return;
  }
  if (!hello->versions.meets(kVersions)) {
    state_.peer_log.versions_differ("a caller", hello->versions, kVersions);
    return refuse(endpoint, *hello, Errc::kVersionMismatch);
  }
  Peer* peer = state_.options->unauthenticated.apply() ? unauthenticated_peer(endpoint, *hello)
                                                       : returning_peer(endpoint, *hello);
  if (peer != nullptr) welcome_peer(endpoint, *peer, *hello);
}

/// Whether the hello belongs to a session that exists already. The peer says hello again because the answer may have
/// been lost on an older connection. It gets the same answer again.
bool Acceptance::said_before(Peer& peer, const Hello& hello) {
  if (peer.state != PeerPhase::kUp || peer.link_id != hello.link || peer.remote_session != hello.session) return false;
  if (!peer.answered) say_welcome(peer, hello.session);
  return true;
}

Peer* Acceptance::unauthenticated_peer(Endpoint& endpoint, const Hello& hello) {
  Peer* const known = state_.peers.inbound(hello.link);
  if (known != nullptr && said_before(*known, hello)) return nullptr;
  if (state_.unauthenticated_peers.find_if([&](Peer* peer) { return said_before(*peer, hello); })) return nullptr;
  if (sessions_.count() >= state_.ofi_options.inbound_limit) {
    state_.peer_log.peer_dropped("a caller", "too many peers");
    refuse(endpoint, hello, Errc::kBusy);
    return nullptr;
  }
  Peer& peer = state_.unauthenticated_peer(hello.link, endpoint.context);
  peer.admit_by = state_.clock.now() + std::chrono::milliseconds(state_.options->unauthenticated.deadline_ms);
  // The source is the address that the hello states, without the port. It cannot be false, since the answer must reach
  // the peer there.
  const std::string address = endpoint.wire->text_of(hello.address);
  const auto victim = state_.unauthenticated_peers.add(&peer, address.substr(0, address.rfind(':')),
                                                       state_.options->unauthenticated, state_.random);
  if (victim) {
    sessions_.note_unauthenticated_dropped(**victim, "too many unauthenticated peers");
    sessions_.lose_peer(**victim, Errc::kConnectionLost);
  }
  return &peer;
}

Peer* Acceptance::returning_peer(Endpoint& endpoint, const Hello& hello) {
  if (Peer* known = state_.peers.inbound(hello.link)) {
    if (said_before(*known, hello)) return nullptr;
    // Reads of the peer's last session are still in flight on another endpoint, so the peer has to try again.
    if (known->wire != endpoint.wire.get() && known->grace_of_reads() != MonoTime::never()) return nullptr;
  } else if (state_.peers.inbound_connected() >= state_.ofi_options.inbound_limit) {
    state_.peer_log.peer_dropped("a caller", "too many peers");
    refuse(endpoint, hello, Errc::kBusy);
    return nullptr;
  }
  return &state_.returning_peer(hello.link, endpoint.context, sessions_);
}

void Acceptance::refuse(Endpoint& endpoint, const Hello& hello, Errc status) {
  ++state_.ofi_counters.refused;
  Peer unauthenticated(state_.host, state_, PeerId(), 0);
  Route* route = endpoint.wire->open_route(hello.address, &unauthenticated);
  if (route == nullptr) return;
  PacketHeader header;
  header.type = kWelcome;
  header.session = hello.session;
  Welcome welcome;
  welcome.status = status;
  if (PacketBuffer* buffer = endpoint.wire->take_buffer()) {
    const Bytes payload = encode(welcome);
    encode(header, payload.size(), Wire::data_of(*buffer));
    std::ranges::copy(payload, Wire::data_of(*buffer) + kHeaderSize);
    // If the answer is lost, the peer notices it by its timeout.
    route->failed = !endpoint.wire->send(*route, *buffer, kHeaderSize + payload.size());
  }
  endpoint.wire->close_route(*route);
}

void Acceptance::welcome_peer(Endpoint& endpoint, Peer& peer, const Hello& hello) {
  peer.wire = endpoint.wire.get();
  peer.route = peer.wire->open_route(hello.address, &peer);
  peer.url = url_of(endpoint.suffix, peer.wire->text_of(hello.address), hello.address);
  peer.state = PeerPhase::kUp;  // so that the peer is taken down like any other one if the rest fails
  sessions_.open(peer);
  if (peer.route == nullptr) {
    ++state_.ofi_counters.refused;
    return state_.lose_later(peer, Errc::kConnectionLost);
  }
  peer.remote_session = hello.session;
  peer.process = watch_process(*peer.wire, hello.pid);
  peer.granted = peer.grant_limits();
  peer.answered = false;
  if (!say_welcome(peer, hello.session)) return state_.lose_later(peer, Errc::kConnectionLost);
  peer.connected(hello.limits);
}

bool Acceptance::say_welcome(Peer& peer, std::uint64_t session) {
  if (peer.route->refused != nullptr) return true;  // the last packet has not left yet
  Welcome welcome;
  welcome.pid = static_cast<std::uint32_t>(::getpid());
  welcome.session = peer.local_session;
  welcome.limits = peer.granted;
  PacketHeader header;
  header.type = kWelcome;
  header.session = session;
  return sessions_.send(peer, header, encode(welcome));
}

}  // namespace spate::bmi::ofi
