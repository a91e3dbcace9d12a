// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/check.h"

namespace spate::bmi::shm {
namespace {

constexpr std::uint32_t kTurnsWithoutBulk = 4;  // in a row
// The turns between two looks at epoll while links are polled. A look costs as much as twenty idle turns.
constexpr std::uint64_t kEventsEvery = 1024;
constexpr std::uint64_t kTurn = kEventsEvery / 64;
constexpr std::uint64_t kBulkTurn = kEventsEvery / 8;
// All links are polled, so no peer rings a bell. Other events (a new connection, the end of a process) can wait for
// some microseconds.
constexpr std::uint64_t kIdleTurn = 1;

}  // namespace

bool EventLoop::open() {
  wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return wake_ && parts_.events.wake_for(wake_.get(), EPOLLIN | EPOLLET);
}

bool EventLoop::poll() {
  parts_.links.free_closed();
  bool did = turn_all();
  const bool slept = std::exchange(sleeping_, false);
  if (parts_.events.used() && (slept || parts_.polled.empty() || since_events_ >= kEventsEvery)) {
    since_events_ = 0;
    if (look_at_events()) {
      turn_all();  // reads links whose peers have rung
      did = true;
    }
  }
  if (!parts_.links.deadlines().empty()) did = expire() || did;
  active_ = active_ || did;
  return did;
}

bool EventLoop::turn_all() {
  bool did = parts_.polled.turn_control();
  since_events_ += did || parts_.polled.size() < parts_.links.size() ? kTurn : kIdleTurn;
  // A caller that waits for a control message gets it before bulk data is moved. If control messages never end, bulk
  // data is moved after some turns.
  if (did && ++turns_without_bulk_ < kTurnsWithoutBulk) {
    parts_.links.settle();
    return true;
  }
  turns_without_bulk_ = 0;
  if (parts_.polled.turn_bulk()) {
    since_events_ += kBulkTurn;
    did = true;
  }
  parts_.links.settle();
  parts_.polled.rest_idle();
  return did;
}

void EventLoop::wake() {
  if (!sleeping_) return;
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
}

bool EventLoop::prepare_to_wait() {
  const Duration spin = parts_.state.shm_options.spin;
  if (spin > Duration(0)) {
    const MonoTime now = parts_.state.clock.now();
    if (std::exchange(active_, false)) spin_until_ = now + spin;
    if (now < spin_until_) return false;
  }
  // If links have work, a thread that announced its sleep earlier may still be asleep.
  if (!parts_.polled.rest_all()) return false;
  sleeping_ = true;
  return true;
}

bool EventLoop::look_at_events() {
  std::array<epoll_event, 64> room;  // filled by the kernel as far as there are any
  const std::span<const epoll_event> events = parts_.events.look(room);
  for (const epoll_event& event : events) on_event(*static_cast<Pollable*>(event.data.ptr), event.events);
  parts_.links.settle();
  return !events.empty();
}

void EventLoop::on_event(Pollable& pollable, std::uint32_t events) {
  Link* link = pollable.link;
  if (link != nullptr && link->closed) return;
  switch (pollable.kind) {
    case Pollable::Kind::kBell:
      if ((events & EPOLLIN) != 0 && link->peer != nullptr && link->peer->state == PeerPhase::kUp)
        parts_.polled.add(*link);
      return;
    case Pollable::Kind::kSocket: return on_socket(*link);
    case Pollable::Kind::kListener: return parts_.listeners.accept_from(static_cast<Listener&>(pollable));
    case Pollable::Kind::kForeign: return;  // it has woken the sleeper
    case Pollable::Kind::kTimer: parts_.timer.drain(); return parts_.timer.arm(parts_.links.deadlines().first());
  }
}

void EventLoop::on_socket(Link& link) {
  if (link.peer == nullptr) return parts_.listeners.on_hello(link);
  if (link.peer->state == PeerPhase::kConnecting) return parts_.connector.on_welcome(link);
  if (!parts_.notes.read(link)) on_hangup(link);
}

void EventLoop::on_hangup(Link& link) {
  // Frames that the peer wrote before it left still count. The limit is what the lanes can hold, in case the peer
  // continues to write.
  constexpr int kTurns = 65536 / 64;
  Peer& peer = *link.peer;
  const auto& lost = parts_.state.lost;
  for (int i = 0; i < kTurns && lost.empty(); ++i) {
    const bool control = peer.turn(MessageClass::kControl);
    const bool bulk = lost.empty() && peer.turn(MessageClass::kBulk);
    if (!control && !bulk) break;
  }
  parts_.state.lose_later(peer, Errc::kConnectionLost);
}

bool EventLoop::expire() {
  const MonoTime now = parts_.state.clock.now();
  bool did = false;
  while (Link* link = parts_.links.deadlines().take_due(now)) {
    on_deadline(*link);
    did = true;
  }
  parts_.links.settle();
  if (did) parts_.timer.arm(parts_.links.deadlines().first());
  return did;
}

void EventLoop::on_deadline(Link& link) {
  Peer* peer = link.peer;
  if (peer == nullptr) {
    ++parts_.state.shm_counters.refused;
    return parts_.links.close(&link);
  }
  if (peer->unauthenticated) return parts_.links.drop_unauthenticated(link, "not authenticated in time");
  if (peer->state == PeerPhase::kConnecting) return parts_.connector.on_deadline(link);
  const Op* op = peer->sender().first_withdrawing();
  if (op == nullptr) return;
  if (op->deadline > parts_.state.clock.now()) return parts_.links.deadlines().set(link, op->deadline);
  parts_.state.peer_log.peer_dropped(link.remote, "no answer to the cancel of a message that it may read");
  parts_.state.lose_later(*peer, Errc::kConnectionLost);
}

void EventLoop::begin_grace(Peer& peer, Op& op) {
  State& state = parts_.state;
  if (peer.unauthenticated)
    return state.lose_later(peer, Errc::kConnectionLost);  // an unauthenticated peer gets no grace period
  op.deadline = state.clock.now() + std::chrono::milliseconds(state.shm_options.cancel_grace_ms);
  if (peer.link->deadline == MonoTime::never()) parts_.links.deadlines().set(*peer.link, op.deadline);
}

}  // namespace spate::bmi::shm
