// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/connector.h"

#include <unistd.h>

#include "base/check.h"

namespace spate::bmi::ofi {

void Connector::connect(Peer& peer) {
  SPATE_CHECK(peer.outbound && peer.state == PeerPhase::kIdle);
  peer.state = PeerPhase::kConnecting;
  peer.attempted = true;
  peer.on_new_endpoint = false;
  const Result<void> begun = begin_session(peer);
  // The time runs from here, since libfabric needs a second of processor time to start, which takes many seconds on a
  // busy machine.
  peer.give_up = state_.clock.now() + std::chrono::milliseconds(state_.options->connect_timeout_ms);
  pending_peers_.sweep_at(MonoTime());
  if (!begun) attempt_failed(peer, begun.error().message());
}

Result<void> Connector::begin_session(Peer& peer) {
  SPATE_TRY(Endpoint * endpoint, endpoints_.outbound(peer.remote));
  peer.wire = endpoint->wire.get();
  peer.route = peer.wire->open_route(fabric_address(peer.remote), &peer);
  if (peer.route == nullptr) return Error(Errc::kUnreachable, "nobody listens there");
  sessions_.open(peer);
  return say_hello(peer);
}

Result<void> Connector::say_hello(Peer& peer) {
  constexpr Duration kAgain = std::chrono::milliseconds(100);
  peer.hello_again = state_.clock.now() + kAgain;
  if (peer.route->refused != nullptr) return {};  // the last packet has not left yet
  peer.route->failed = false;
  Hello hello;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  hello.link = peer.link_id;
  hello.session = peer.local_session;
  hello.limits = peer.grant_limits();
  hello.address = peer.wire->name();
  PacketHeader header;
  header.type = kHello;
  if (!sessions_.send(peer, header, encode(hello))) return Error(Errc::kNoMemory, "out of packet buffers");
  return {};
}

void Connector::on_welcome(Peer& peer, ByteView payload) {
  const std::optional<Welcome> welcome = decode_welcome(payload);
  // The welcome came twice.
  if (peer.state == PeerPhase::kUp && welcome && welcome->session == peer.remote_session) return;
  if (peer.state != PeerPhase::kConnecting) return state_.lose_later(peer, Errc::kProtocol);
  if (!welcome) return attempt_failed(peer, "the process that listens there is no spate server");
  if (welcome->status != Errc::kOk) {
    return attempt_failed(peer, "refused by the server: " + std::string(describe(welcome->status)));
  }
  peer.remote_session = welcome->session;
  peer.process = watch_process(*peer.wire, welcome->pid);
  peer.connected(welcome->limits);
}

void Connector::attempt_failed(Peer& peer, std::string why) {
  state_.peer_log.not_connected(peer.url, why);
  peer.failure = std::move(why);
  state_.lose_later(peer, Errc::kUnreachable);
}

/// The peer's route is gone with the old endpoint, so this makes another one.
void Connector::again(Peer& peer, const Result<void>& opened) {
  sessions_.close(peer);
  peer.route = nullptr;
  peer.on_new_endpoint = true;
  if (!opened) return attempt_failed(peer, opened.error().message());
  const Result<void> begun = begin_session(peer);
  if (!begun) attempt_failed(peer, begun.error().message());
}

}  // namespace spate::bmi::ofi
