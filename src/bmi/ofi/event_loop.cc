// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/event_loop.h"

#include <algorithm>
#include <utility>

namespace spate::bmi::ofi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kTurnAgain = milliseconds(1);  // for peers to which the provider could not send
// Endpoints of providers that have no descriptor are polled again after this time, which doubles while nothing happens.
constexpr Duration kLookAgain = microseconds(25);
constexpr Duration kLookAgainBusy = microseconds(500);  // at most, while a peer is connected
constexpr Duration kLookAgainIdle = milliseconds(10);

}  // namespace

/// The events of one endpoint's wire.
class EventLoop::Client final : public WireClient {
 public:
  Client(EventLoop& loop, Endpoint& endpoint) : loop_(loop), endpoint_(endpoint) {}
  void on_packet(ByteView packet) override { loop_.on_packet(endpoint_, packet); }
  void on_sent(Route& route, bool good) override { loop_.on_sent(route, good); }
  void on_read(void* who, bool good) override {
    Op& op = *static_cast<Op*>(who);
    if (endpoint_.wire->on_this_host()) {
      endpoint_.ended_reads.emplace_back(&op, good);
    } else {
      Peer::of(op).on_read(op, good);
    }
  }

 private:
  EventLoop& loop_;
  Endpoint& endpoint_;
};

bool EventLoop::poll() {
  parts_.pending_peers.awake();
  bool did = false;
  for (Endpoint& endpoint : parts_.endpoints.all()) did = poll_wire(endpoint) || did;
  did = turn_all() || did;
  parts_.sessions.settle();
  idle_polls_ = did ? 0 : idle_polls_ + 1;
  const bool armed = parts_.timer.armed_for() != MonoTime::never();
  const MonoTime due = std::min(parts_.pending_peers.next_sweep(), parts_.timer.armed_for());
  if ((++polls_ % 64 == 0 || armed) && parts_.state.clock.now() >= due) {
    if (armed) parts_.timer.drain();
    if (parts_.state.clock.now() >= parts_.pending_peers.next_sweep()) parts_.peer_health_check.sweep();
  }
  return did;
}

bool EventLoop::poll_wire(Endpoint& endpoint) {
  Client client(*this, endpoint);
  const bool did = endpoint.wire->poll(client);
  if (endpoint.ended_reads.empty()) return did;
  // The ends of reads are handled after one more poll, so that everything which the sender sent before is known. A
  // sender that had given up on this side, and may have changed its memory while it was read, has said so before.
  std::vector<std::pair<Op*, bool>> ended;
  ended.swap(endpoint.ended_reads);
  (void)endpoint.wire->poll(client);
  parts_.sessions.settle();
  for (const auto& [op, good] : ended) Peer::of(*op).on_read(*op, good);
  return true;
}

bool EventLoop::turn_all() {
  bool did = false;
  parts_.pending_peers.take_turning([&](Peer& peer) {
    if (peer.state == PeerPhase::kConnecting && peer.route != nullptr) {
      if (!peer.wire->resend(*peer.route) && !peer.route->failed) parts_.pending_peers.keep_turning(peer);
    } else {
      did = peer.turn() || did;
    }
  });
  return did;
}

void EventLoop::on_packet(Endpoint& endpoint, ByteView bytes) {
  ++parts_.state.ofi_counters.packets_received;
  const std::optional<Packet> packet = decode_packet(bytes);
  if (!packet) {
    ++parts_.state.ofi_counters.protocol_errors;
    return;
  }
  if (packet->header.type == kHello) return parts_.acceptance.on_hello(endpoint, packet->payload);
  Peer* const known = parts_.sessions.find(packet->header.session, *endpoint.wire);
  if (known == nullptr) {
    ++parts_.state.ofi_counters.no_session;  // usually of a session that has just ended
    return;
  }
  Peer& peer = *known;
  peer.spoke = true;
  peer.pings = 0;
  peer.answered = true;
  const FrameType type = packet->header.type;
  if (type == kWelcome) return parts_.connector.on_welcome(peer, packet->payload);
  if (peer.state != PeerPhase::kUp || peer.route == nullptr) return;
  if (type == kBye) {
    peer.route->failed = true;  // nothing more is sent on that route
    return parts_.state.lose_later(peer, Errc::kConnectionLost);
  }
  if (peer.doomed) return;
  if (!peer.on_packet(*packet)) {
    peer.doomed = true;  // the peer is told of it, since its route is still open
    return parts_.state.lose_later(peer, Errc::kProtocol);
  }
  parts_.pending_peers.keep_turning(peer);
}

void EventLoop::on_sent(Route& route, bool good) {
  Peer& peer = *static_cast<Peer*>(route.owner);
  if (good) {
    peer.stuck_since = MonoTime::never();
    return parts_.pending_peers.keep_turning(peer);
  }
  route.failed = true;
  if (peer.state == PeerPhase::kConnecting) return;  // the hello is sent again in a moment
  parts_.state.lose_later(peer, Errc::kConnectionLost);
}

Duration EventLoop::time_to_next_look() const {
  Duration wait = Duration::max();
  if (parts_.pending_peers.any_turning() || parts_.endpoints.parting()) wait = kTurnAgain;
  if (parts_.pending_peers.next_sweep() != MonoTime::never())
    wait = std::min(wait, std::max(Duration(1), parts_.pending_peers.next_sweep() - parts_.state.clock.now()));
  for (const Endpoint& endpoint : parts_.endpoints.all()) {
    if (endpoint.wire->wait_descriptor() >= 0) continue;
    const Duration most = parts_.sessions.count() == 0 ? kLookAgainIdle : kLookAgainBusy;
    wait = std::min(wait, std::min(most, kLookAgain * (1U << std::min(idle_polls_ / 4, 10U))));
  }
  return wait;
}

bool EventLoop::prepare_to_wait() {
  for (Endpoint& endpoint : parts_.endpoints.all()) {
    if (!endpoint.ended_reads.empty() || !endpoint.wire->may_sleep()) return false;
  }
  parts_.pending_peers.sleep_follows();
  const Duration wait = time_to_next_look();
  if (wait != Duration::max()) parts_.timer.arm(parts_.state.clock.now() + wait);
  return true;
}

}  // namespace spate::bmi::ofi
