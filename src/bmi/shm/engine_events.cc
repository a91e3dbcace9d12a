// SPDX-License-Identifier: Apache-2.0
// Turns, what epoll reports, and deadlines.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "bmi/shm/engine.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::shm {
namespace {

// Links that are looked into each turn however idle they are: it costs less than a bell.
constexpr std::size_t kAlwaysPolled = 8;
constexpr std::uint32_t kIdleTurns = 64;        // of the others, before they rest
constexpr std::uint32_t kTurnsWithoutBulk = 4;  // in a row
// Between two looks at epoll while links are polled; each costs as much as twenty idle turns.
constexpr std::uint64_t kEventsEvery = 1024;
constexpr std::uint64_t kTurn = kEventsEvery / 64;
constexpr std::uint64_t kBulkTurn = kEventsEvery / 8;
// All links are polled, so no peer rings a bell. Other events (a new connection, the end of a process) can wait for
// some microseconds.
constexpr std::uint64_t kIdleTurn = 1;

}  // namespace

bool Engine::progress() {
  // A thread waits here for another one that is inside. If it returned, it would spin, since the descriptor stays
  // readable until the other thread has fetched the events.
  std::unique_lock lock(mutex_);
  const bool did = poll();
  settle();
  return state_.outbox.deliver(lock, *sink_) || did;
}

bool Engine::also_wait_for(int fd) { return watch(fd, EPOLLIN, foreign_pollable_); }

bool Engine::poll() {
  graveyard_.clear();
  bool did = turn_all();
  const bool slept = std::exchange(sleeping_, false);
  if (used_ && (slept || polled_.empty() || since_events_ >= kEventsEvery)) {
    since_events_ = 0;
    if (look_at_events()) {
      turn_all();  // links whose peers have rung are read at once
      did = true;
    }
  }
  if (!deadlines_.empty()) did = expire() || did;
  active_ = active_ || did;
  return did;
}

bool Engine::turn_all() {
  bool did = false;
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    Link& link = *polled_[i];
    ++link.idle_turns;
    if (!link.peer->has_turn(MessageClass::kControl)) continue;
    // A caller that waits for an answer gets it at once. Looking for a second one would wait for a cache line that the
    // other side owns.
    const int frames = link.idle_turns > 1 ? 1 : Peer::kFramesInATurn;
    if (!link.peer->turn(MessageClass::kControl, frames)) continue;
    link.peer->announce_progress();
    link.idle_turns = 0;
    did = true;
  }
  since_events_ += did || polled_.size() < links_.size() ? kTurn : kIdleTurn;
  // A caller that waits for a control message gets it before bulk data is moved, unless control messages never end.
  if (did && ++turns_without_bulk_ < kTurnsWithoutBulk) {
    settle();
    return true;
  }
  turns_without_bulk_ = 0;
  if (turn_bulk()) {
    since_events_ += kBulkTurn;
    did = true;
  }
  settle();
  if (polled_.size() > kAlwaysPolled) {
    for (std::size_t i = polled_.size(); i-- > 0;) rest_if_idle(*polled_[i]);
  }
  return did;
}

// One peer's a turn: control messages of all peers come before the next one's.
bool Engine::turn_bulk() {
  const std::size_t count = polled_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = next_bulk_ + i;
    Link& link = *polled_[at < count ? at : at % count];  // a division costs more than the look
    if (!link.peer->has_pulls() && !link.peer->has_turn(MessageClass::kBulk)) continue;
    const bool pulled = link.peer->turn_pulls();
    if (!link.peer->turn(MessageClass::kBulk) && !pulled) continue;
    // A copy that ended is answered on the control lane.
    if (pulled) link.peer->turn(MessageClass::kControl);
    link.peer->announce_progress();
    link.idle_turns = 0;
    next_bulk_ = (next_bulk_ + i + 1) % count;
    return true;
  }
  return false;
}

void Engine::rest_if_idle(Link& link) {
  if (link.idle_turns < kIdleTurns) return;
  link.wait_for(kWakeFrames);
  if (link.peer->quiet()) {
    deactivate(link);
  } else {
    link.wait_no_more(kWakeFrames);
    link.idle_turns = 0;
  }
}

void Engine::activate(Link& link) {
  link.idle_turns = 0;
  if (std::exchange(link.polled, true)) return;
  link.wait_no_more(kWakeFrames);
  polled_.push_back(&link);
}

void Engine::deactivate(Link& link) {
  if (std::exchange(link.polled, false)) std::erase(polled_, &link);
}

void Engine::keep_turning(Peer& peer) {
  activate(*peer.link);
  if (!sleeping_) return;
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
}

bool Engine::prepare_to_wait() {
  const std::lock_guard lock(mutex_);
  if (shm_options_.spin > Duration(0)) {
    const MonoTime now = clock_.now();
    if (std::exchange(active_, false)) spin_until_ = now + shm_options_.spin;
    if (now < spin_until_) return false;
  }
  for (Link* link : polled_) link->wait_for(kWakeFrames);
  if (!std::ranges::all_of(polled_, [](Link* link) { return link->peer->quiet(); })) {
    for (Link* link : polled_) link->wait_no_more(kWakeFrames);
    return false;
  }
  for (Link* link : polled_) link->polled = false;
  polled_.clear();
  sleeping_ = true;
  return true;
}

bool Engine::look_at_events() {
  std::array<epoll_event, 64> events;  // filled by the kernel up to n
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    on_event(*static_cast<Pollable*>(event.data.ptr), event.events);
  }
  settle();
  return n > 0;
}

void Engine::on_event(Pollable& pollable, std::uint32_t events) {
  Link* link = pollable.link;
  if (link != nullptr && link->closed) return;
  switch (pollable.kind) {
    case Pollable::Kind::kBell:
      // The bell is never read, because its other owner may have changed it (docs/wire-shm.md).
      if ((events & EPOLLIN) != 0 && link->peer != nullptr && link->peer->state == PeerPhase::kUp) activate(*link);
      return;
    case Pollable::Kind::kSocket: return on_socket(*link);
    case Pollable::Kind::kListener: return accept_from(static_cast<Listener&>(pollable));
    case Pollable::Kind::kForeign: return;  // it has woken the sleeper
    case Pollable::Kind::kTimer: timer_.drain(); return timer_.arm(deadlines_.first());
  }
}

void Engine::on_socket(Link& link) {
  if (link.peer == nullptr) return on_hello(link);
  if (link.peer->state == PeerPhase::kConnecting) return on_welcome(link);
  if (!read_notes(link)) on_hangup(link);
}

void Engine::on_hangup(Link& link) {
  // Frames that the peer wrote before it left still count. The bound is what lanes can hold, in case it continues to
  // write.
  constexpr int kTurns = 65536 / 64;
  Peer& peer = *link.peer;
  for (int i = 0; i < kTurns && state_.lost.empty(); ++i) {
    const bool control = peer.turn(MessageClass::kControl);
    const bool bulk = state_.lost.empty() && peer.turn(MessageClass::kBulk);
    if (!control && !bulk) break;
  }
  state_.lose_later(peer, Errc::kConnectionLost);
}

bool Engine::read_notes(Link& link) {
  constexpr int kMost = 64;  // then others get their turn
  for (int i = 0; i < kMost; ++i) {
    Packet packet;
    receive_packet(link.socket(), packet);
    if (packet.status == Packet::Status::kNothing) return true;
    if (packet.status == Packet::Status::kClosed) return false;
    if (on_note(link, packet)) continue;
    state_.lose_later(*link.peer, Errc::kProtocol);
    return true;
  }
  return true;
}

bool Engine::on_note(Link& link, Packet& packet) {
  const std::optional<Note> note = decode_note(packet.view());
  if (!note) return false;
  switch (note->kind) {
    case Note::Kind::kBell: activate(link); return true;
    case Note::Kind::kArena: {
      if (link.peer->stranger) return false;  // mapped memory is nothing for strangers
      const Result<void> added = link.arenas.add(note->number, std::move(packet.descriptors[0]), note->value);
      if (!added) complain(link.remote, added.error().message());
      return added.has_value();
    }
    case Note::Kind::kDescriptor: {
      const bool server = link.side == Side::kConnector;
      const std::size_t kept = server ? shm_options_.descriptors_from_servers : shm_options_.descriptors_from_clients;
      if (packet.descriptor_count == 1 && link.descriptors.size() < kept) {
        link.descriptors.push_back(PassedDescriptor{Tag(note->value), std::move(packet.descriptors[0])});
      } else {
        ++counters_.dropped_descriptors;
      }
      return true;
    }
    case Note::Kind::kLanes: {
      const bool fits = link.side == Side::kConnector && packet.descriptor_count == 1 && link.wants_full_lanes();
      return fits && link.map_full_lanes(packet.descriptors[0].get()).has_value();
    }
  }
  return false;
}

// --- deadlines ---

bool Engine::expire() {
  const MonoTime now = clock_.now();
  bool did = false;
  while (Link* link = deadlines_.take_due(now)) {
    on_deadline(*link);
    did = true;
  }
  settle();
  if (did) timer_.arm(deadlines_.first());
  return did;
}

void Engine::on_deadline(Link& link) {
  Peer* peer = link.peer;
  if (peer == nullptr) {
    ++counters_.refused;
    return close_link(&link);
  }
  if (peer->stranger) return drop_stranger(link, "not authenticated in time");
  if (peer->state == PeerPhase::kConnecting) {
    if (clock_.now() >= link.give_up) return attempt_failed(*peer, "no answer within the connect timeout");
    return try_connect(link);
  }
  const Op* op = peer->sender().first_withdrawing();
  if (op == nullptr) return;
  if (op->deadline > clock_.now()) return deadlines_.set(link, op->deadline);
  complain(link.remote, "no answer to the cancel of a message that it may read");
  state_.lose_later(*peer, Errc::kConnectionLost);
}

void Engine::begin_grace(Peer& peer, Op& op) {
  if (peer.stranger) return state_.lose_later(peer, Errc::kConnectionLost);  // no patience with them
  op.deadline = clock_.now() + std::chrono::milliseconds(shm_options_.cancel_grace_ms);
  if (peer.link->deadline == MonoTime::never()) deadlines_.set(*peer.link, op.deadline);
}

/// False, with errno: the kernel is out of memory for it, or the user has used up fs.epoll.max_user_watches.
bool Engine::watch(int fd, std::uint32_t events, Pollable& pollable) {
  used_ = used_ || (pollable.kind != Pollable::Kind::kTimer && pollable.kind != Pollable::Kind::kForeign);
  epoll_event event{};
  event.events = events;
  event.data.ptr = &pollable;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Engine::complain(const std::string& who, std::string_view what) {
  if (const auto more = complaints_.admit()) {
    SPATE_LOG("bmi/shm", warn, "peer dropped peer={} reason={}{}", who, log::Quoted{what}, *more);
  }
}

}  // namespace spate::bmi::shm
