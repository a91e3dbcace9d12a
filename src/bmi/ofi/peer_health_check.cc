// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/peer_health_check.h"

#include <poll.h>

#include <utility>

#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::ofi {
namespace {

using std::chrono::milliseconds;

constexpr Duration kSweepSoon = milliseconds(20);  // while a peer connects or releases memory
constexpr Duration kSweepShm = milliseconds(50);   // to notice the end of other processes
constexpr Duration kSweepCalm = milliseconds(500);

}  // namespace

void PeerHealthCheck::sweep() {
  const MonoTime now = state_.clock.now();
  Wire* hung = nullptr;
  bool connected = false;
  bool soon = pending_peers_.parted_by() != MonoTime::never();
  bool local = false;
  for (const auto& [id, peer] : state_.peers.all()) {
    sweep_peer(*peer, now, hung);
    connected |= peer->state == PeerPhase::kUp;
    local |= peer->process.get() >= 0;
    soon |= peer->state == PeerPhase::kConnecting || peer->grace_of_reads() != MonoTime::never() ||
            peer->grace_of_withdrawn() != MonoTime::never() || peer->stuck_since != MonoTime::never();
  }
  if (hung != nullptr) reopen(*hung);
  sessions_.settle();
  if (pending_peers_.parted_by() <= now) {
    endpoints_.drop_parting();
    pending_peers_.all_parted();
  }
  endpoints_.look_at_pages();
  pending_peers_.sweep_at(soon        ? now + kSweepSoon
                          : local     ? now + kSweepShm
                          : connected ? now + kSweepCalm
                                      : MonoTime::never());
}

void PeerHealthCheck::sweep_peer(Peer& peer, MonoTime now, Wire*& hung) {
  if (peer.grace_of_reads() <= now) hung = peer.wire;
  if (peer.state == PeerPhase::kConnecting) return sweep_attempt(peer, now, hung);
  if (peer.state != PeerPhase::kUp || peer.route == nullptr) return;
  if (is_lost(peer, now)) return state_.lose_later(peer, Errc::kConnectionLost);
  ping_if_silent(peer, now);
}

void PeerHealthCheck::sweep_attempt(Peer& peer, MonoTime now, Wire*& hung) {
  if (peer.route != nullptr && peer.route->broken && !peer.on_new_endpoint) hung = peer.wire;
  if (peer.give_up <= now) return connector_.attempt_failed(peer, "no answer within the connect timeout");
  if (peer.hello_again > now) return;
  const Result<void> said = connector_.say_hello(peer);
  if (!said) connector_.attempt_failed(peer, said.error().message());
}

/// Whether a connected peer is to be dropped.
bool PeerHealthCheck::is_lost(Peer& peer, MonoTime now) {
  if (peer.unauthenticated && peer.admit_by <= now) {
    sessions_.note_unauthenticated_dropped(peer, "not authenticated in time");
    return true;
  }
  if (peer.grace_of_withdrawn() <= now) {
    state_.peer_log.peer_dropped(peer.url, "no answer to the cancel of a message that it may read");
    return true;
  }
  pollfd ended{peer.process.get(), POLLIN, 0};
  if (ended.fd >= 0 && ::poll(&ended, 1, 0) > 0) {
    peer.route->failed = true;  // its memory must not be touched any more
    return true;
  }
  if (peer.route->refused == nullptr) {
    peer.stuck_since = MonoTime::never();
  } else if (peer.stuck_since == MonoTime::never()) {
    peer.stuck_since = now;
  } else if (now - peer.stuck_since >= milliseconds(state_.ofi_options.stuck_ms)) {
    state_.peer_log.peer_dropped(peer.url, "nothing can be sent to it any more");
    return true;
  }
  return false;
}

/// Sends a ping, which fails if the process is gone. A process that is only slow is left alone.
void PeerHealthCheck::ping_if_silent(Peer& peer, MonoTime now) {
  if (std::exchange(peer.spoke, false)) peer.heard = now;
  const auto timeout = milliseconds(state_.ofi_options.ping_ms) * (peer.first_op() != nullptr ? 1 : 10);
  if (now - peer.heard < timeout * (peer.pings + 1) || peer.pings >= 16) return;
  ++peer.pings;
  peer.say(kPing);
}

/// Closes and opens an endpoint again. This frees the memory of callers whose reads do not end, and repairs a
/// connection that has failed and is not made again. All sessions of the endpoint end. Attempts to connect continue
/// over the new endpoint.
void PeerHealthCheck::reopen(Wire& wire) {
  SPATE_LOG("bmi/ofi", warn, "endpoint reopened: a read hangs or a connection is broken provider={}", wire.provider());
  ++state_.ofi_counters.endpoints_reopened;
  Endpoint& endpoint = endpoints_.of(wire);
  for (const auto& [id, peer] : state_.peers.all()) {
    if (peer->wire == &wire && peer->state != PeerPhase::kConnecting) state_.lose_later(*peer, Errc::kConnectionLost);
  }
  sessions_.settle();
  const Result<void> opened = endpoints_.reopen(endpoint);
  for (const auto& [id, peer] : state_.peers.all()) {
    if (peer->wire == &wire) peer->reads_are_over();
  }
  endpoint.ended_reads.clear();
  if (!opened) {
    SPATE_LOG("bmi/ofi", error, "the endpoint cannot be opened again: restart this process error={}", opened.error());
  }
  for (const auto& [id, peer] : state_.peers.all()) {
    if (peer->wire == &wire && peer->state == PeerPhase::kConnecting) connector_.again(*peer, opened);
  }
}

}  // namespace spate::bmi::ofi
