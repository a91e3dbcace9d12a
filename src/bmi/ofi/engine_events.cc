// SPDX-License-Identifier: Apache-2.0
// Turns, packets, and what is due by the clock.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bmi/ofi/engine.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::ofi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kTurnAgain = milliseconds(1);   // peers to which the provider could not send
constexpr Duration kSweepSoon = milliseconds(20);  // while a peer connects or releases memory
constexpr Duration kSweepShm = milliseconds(50);   // the end of other processes
constexpr Duration kSweepCalm = milliseconds(500);
// Providers that cannot sleep are looked at again after so long, which doubles while nothing happens.
constexpr Duration kLookAgain = microseconds(25);
constexpr Duration kLookAgainBusy = microseconds(500);  // at most, while a peer is connected
constexpr Duration kLookAgainIdle = milliseconds(10);

}  // namespace

bool Engine::progress() {
  // A thread waits here for another one that is inside. If it returned, it would spin, since the descriptor stays
  // readable until the other thread has fetched the events.
  std::unique_lock lock(mutex_);
  const bool did = poll();
  settle();
  return state_.outbox.deliver(lock, *sink_) || did;
}

bool Engine::also_wait_for(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool Engine::poll() {
  sleeping_ = false;
  std::uint64_t count = 0;
  if (std::exchange(woken_, false)) [[maybe_unused]]
    const auto drained = ::read(wake_.get(), &count, sizeof count);
  bool did = false;
  for (Entry& entry : wires_) did = poll_wire(entry) || did;
  did = turn_all() || did;
  settle();
  idle_polls_ = did ? 0 : idle_polls_ + 1;
  if ((++polls_ % 64 == 0 || timer_.armed_for() != MonoTime::never()) &&
      clock_.now() >= std::min(next_sweep_, timer_.armed_for())) {
    if (timer_.armed_for() != MonoTime::never()) timer_.drain();
    if (clock_.now() >= next_sweep_) sweep();
  }
  return did;
}

bool Engine::poll_wire(Entry& entry) {
  bool did = entry.wire->poll(entry);
  if (entry.ended_reads.empty()) return did;
  // Told when whatever was sent before the reads ended is known: a sender that gave up on this side, and may have used
  // its memory again while it was read, has said so before.
  std::vector<std::pair<Op*, bool>> ended;
  ended.swap(entry.ended_reads);
  (void)entry.wire->poll(entry);
  settle();
  for (const auto& [op, good] : ended) Peer::of(*op).on_read(*op, good);
  return true;
}

bool Engine::turn_all() {
  turning_now_.swap(turning_);
  turning_.clear();
  bool did = false;
  for (Peer* peer : turning_now_) peer->turning = false;
  for (Peer* peer : turning_now_) {
    if (peer->state == PeerPhase::kConnecting && peer->route != nullptr) {
      if (!peer->wire->resend(*peer->route) && !peer->route->failed) keep_turning(*peer);
    } else {
      did = peer->turn() || did;
    }
  }
  turning_now_.clear();
  return did;
}

void Engine::keep_turning(Peer& peer) {
  if (std::exchange(peer.turning, true)) return;
  turning_.push_back(&peer);
  wake();
}

void Engine::wake() {
  if (!sleeping_ || std::exchange(woken_, true)) return;
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
}

void Engine::on_packet(Entry& entry, ByteView bytes) {
  ++counters_.packets_received;
  const std::optional<Packet> packet = decode_packet(bytes);
  if (!packet) {
    ++counters_.protocol_errors;
    return;
  }
  if (packet->header.type == kHello) return on_hello(entry, packet->payload);
  const auto found = sessions_.find(packet->header.session);
  if (found == sessions_.end() || found->second->wire != entry.wire.get()) {
    ++counters_.strangers;  // as a rule of a session that has just ended
    return;
  }
  Peer& peer = *found->second;
  peer.spoke = true;
  peer.pings = 0;
  peer.answered = true;
  const FrameType type = packet->header.type;
  if (type == kWelcome) return on_welcome(peer, packet->payload);
  if (peer.state != PeerPhase::kUp || peer.route == nullptr) return;
  if (type == kBye) {
    peer.route->failed = true;  // nothing is said to it any more
    return state_.lose_later(peer, Errc::kConnectionLost);
  }
  if (peer.doomed) return;
  if (!peer.on_packet(*packet)) {
    peer.doomed = true;  // it hears of it: its route is open still
    return state_.lose_later(peer, Errc::kProtocol);
  }
  keep_turning(peer);
}

void Engine::on_sent(Route& route, bool good) {
  Peer& peer = *static_cast<Peer*>(route.owner);
  if (good) {
    peer.stuck_since = MonoTime::never();
    return keep_turning(peer);
  }
  route.failed = true;
  if (peer.state == PeerPhase::kConnecting) return;  // said again in a moment
  state_.lose_later(peer, Errc::kConnectionLost);
}

void Engine::on_read(Entry& entry, Op& op, bool good) {
  if (entry.wire->on_this_host()) {
    entry.ended_reads.emplace_back(&op, good);
  } else {
    Peer::of(op).on_read(op, good);
  }
}

MonoTime Engine::begin_grace() {
  next_sweep_ = MonoTime();
  wake();
  return clock_.now() + milliseconds(ofi_options_.cancel_grace_ms);
}

// --- by the clock ---

/// Last words leave within a moment, or not at all.
void Engine::begin_parting() {
  if (parted_by_ == MonoTime::never()) parted_by_ = clock_.now() + milliseconds(ofi_options_.cancel_grace_ms);
  next_sweep_ = MonoTime();
  wake();
}

void Engine::sweep() {
  const MonoTime now = clock_.now();
  Wire* hung = nullptr;
  bool connected = false;
  bool soon = parted_by_ != MonoTime::never();
  bool local = false;
  for (const auto& [id, peer] : peers_.all()) {
    sweep_peer(*peer, now, hung);
    connected |= peer->state == PeerPhase::kUp;
    local |= peer->process.get() >= 0;
    soon |= peer->state == PeerPhase::kConnecting || peer->grace_of_reads() != MonoTime::never() ||
            peer->grace_of_withdrawn() != MonoTime::never() || peer->stuck_since != MonoTime::never();
  }
  if (hung != nullptr) reopen(*hung);
  settle();
  if (parted_by_ <= now) {
    for (Entry& entry : wires_) entry.wire->drop_parting();
    parted_by_ = MonoTime::never();
  }
  look_at_pages();
  next_sweep_ = soon ? now + kSweepSoon : local ? now + kSweepShm : connected ? now + kSweepCalm : MonoTime::never();
}

void Engine::sweep_peer(Peer& peer, MonoTime now, Wire*& hung) {
  if (peer.grace_of_reads() <= now) hung = peer.wire;
  if (peer.state == PeerPhase::kConnecting && peer.route != nullptr && peer.route->broken && !peer.on_new_endpoint)
    hung = peer.wire;
  if (peer.state == PeerPhase::kConnecting && peer.give_up <= now) {
    return attempt_failed(peer, "no answer within the connect timeout");
  }
  if (peer.state == PeerPhase::kConnecting && peer.hello_again <= now) {
    const Result<void> said = say_hello(peer);
    if (!said) return attempt_failed(peer, said.error().message());
  }
  if (peer.state != PeerPhase::kUp || peer.route == nullptr) return;
  if (peer.stranger && peer.admit_by <= now) {
    note_stranger_dropped(peer, "not authenticated in time");
    return state_.lose_later(peer, Errc::kConnectionLost);
  }
  if (peer.grace_of_withdrawn() <= now) {
    complain(peer.url, "no answer to the cancel of a message that it may read");
    return state_.lose_later(peer, Errc::kConnectionLost);
  }
  pollfd ended{peer.process.get(), POLLIN, 0};
  if (ended.fd >= 0 && ::poll(&ended, 1, 0) > 0) {
    peer.route->failed = true;  // its memory is not to be touched any more
    return state_.lose_later(peer, Errc::kConnectionLost);
  }
  if (peer.route->refused == nullptr) {
    peer.stuck_since = MonoTime::never();
  } else if (peer.stuck_since == MonoTime::never()) {
    peer.stuck_since = now;
  } else if (now - peer.stuck_since >= milliseconds(ofi_options_.stuck_ms)) {
    complain(peer.url, "nothing can be sent to it any more");
    return state_.lose_later(peer, Errc::kConnectionLost);
  }
  if (std::exchange(peer.spoke, false)) peer.heard = now;
  // To a process that is gone nothing can be sent; one that only does not look is left alone.
  const auto patience = milliseconds(ofi_options_.ping_ms) * (peer.first_op() != nullptr ? 1 : 10);
  if (now - peer.heard < patience * (peer.pings + 1) || peer.pings >= 16) return;
  ++peer.pings;
  peer.say(kPing);
}

/// For reads that do not end, and so keep their caller's memory, and for a connection that has failed and is not made
/// again. Gives up the endpoint and all its sessions. Attempts to connect continue over the new endpoint.
void Engine::reopen(Wire& wire) {
  SPATE_LOG("bmi/ofi", warn,
            "a read does not end or a connection cannot be used: endpoint closed and opened anew provider={}",
            wire.provider());
  ++counters_.endpoints_reopened;
  const auto entry = std::ranges::find_if(wires_, [&](const Entry& e) { return e.wire.get() == &wire; });
  for (const auto& [id, peer] : peers_.all()) {
    if (peer->wire == &wire && peer->state != PeerPhase::kConnecting) state_.lose_later(*peer, Errc::kConnectionLost);
  }
  settle();
  if (entry->watched_fd >= 0) (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, entry->watched_fd, nullptr);
  quieten(wire);
  Result<void> opened = wire.reopen(entry->listens || wire.on_this_host());
  if (opened) opened = watch_wire(*entry);
  for (const auto& [id, peer] : peers_.all()) {
    if (peer->wire == &wire) peer->reads_are_over();
  }
  entry->ended_reads.clear();
  if (!opened) {
    SPATE_LOG("bmi/ofi", error, "the endpoint cannot be opened again: restart this process error={}", opened.error());
  }
  for (const auto& [id, peer] : peers_.all()) {
    if (peer->wire == &wire && peer->state == PeerPhase::kConnecting) connect_again(*peer, opened);
  }
}

/// Its route went with the old endpoint.
void Engine::connect_again(Peer& peer, const Result<void>& opened) {
  sessions_.erase(peer.local_session);
  peer.route = nullptr;
  peer.on_new_endpoint = true;
  if (!opened) return attempt_failed(peer, opened.error().message());
  const Result<void> begun = begin_session(peer);
  if (!begun) attempt_failed(peer, begun.error().message());
}

Duration Engine::time_to_next_look() const {
  Duration wait = Duration::max();
  const bool parting = std::ranges::any_of(wires_, [](const Entry& entry) { return entry.wire->parting(); });
  if (!turning_.empty() || parting) wait = kTurnAgain;
  if (next_sweep_ != MonoTime::never()) wait = std::min(wait, std::max(Duration(1), next_sweep_ - clock_.now()));
  for (const Entry& entry : wires_) {
    if (entry.wire->wait_descriptor() >= 0) continue;
    const Duration most = sessions_.empty() ? kLookAgainIdle : kLookAgainBusy;
    wait = std::min(wait, std::min(most, kLookAgain * (1U << std::min(idle_polls_ / 4, 10U))));
  }
  return wait;
}

bool Engine::prepare_to_wait() {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : wires_) {
    if (!entry.ended_reads.empty() || !entry.wire->may_sleep()) return false;
  }
  sleeping_ = true;
  const Duration wait = time_to_next_look();
  if (wait != Duration::max()) timer_.arm(clock_.now() + wait);
  return true;
}

void Engine::complain(const std::string& who, std::string_view what) {
  if (const auto more = complaints_.admit()) {
    SPATE_LOG("bmi/ofi", warn, "peer dropped peer={} reason={}{}", who, log::Quoted{what}, *more);
  }
}

}  // namespace spate::bmi::ofi
