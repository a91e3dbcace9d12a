// SPDX-License-Identifier: Apache-2.0
// What epoll reports, and deadlines.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "bmi/tcp/engine.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::tcp {

namespace {

int pass_of(const Connection& connection) {
  if (connection.closed) return 1;  // its peer may be gone, too
  if (connection.channel != 0) return 2;
  for (const Channel& channel : connection.peer->channels) {
    if (&channel != &connection.peer->channels[0] && channel.connection != nullptr && channel.connection->held)
      return 3;
  }
  return 1;
}

}  // namespace

bool Engine::progress() {
  // A thread waits here for another one that is inside. If it returned, it would spin, since the descriptor stays
  // readable until the other thread has fetched the events.
  if (!used_.load(std::memory_order_relaxed)) return false;
  std::unique_lock lock(mutex_);
  const bool did = poll();
  settle();
  return state_.outbox.deliver(lock, *sink_) || did;
}

bool Engine::also_wait_for(int fd) { return watch(fd, EPOLLIN, foreign_pollable_); }

void Engine::stop_waiting_for(int fd) { (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

bool Engine::wait(Duration timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (!fetched_.empty() || !due_.empty()) {
      slept_.store(false, std::memory_order_relaxed);
      return true;
    }
    ++sleepers_;
  }
  std::array<epoll_event, kEventsAtOnce> events;  // filled by the kernel up to n
  const timespec limit{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  const timespec* const most = timeout.count() < 0 ? nullptr : &limit;
  const int n = ::epoll_pwait2(epoll_.get(), events.data(), static_cast<int>(events.size()), most, nullptr);
  const std::lock_guard lock(mutex_);
  --sleepers_;
  slept_.store(false, std::memory_order_relaxed);
  dry_ = false;
  if (!used_.load(std::memory_order_relaxed)) return true;  // belongs to the core: progress() ignores it
  if (n > 0) fetched_.insert(fetched_.end(), events.begin(), events.begin() + n);
  fetched_all_ = n < static_cast<int>(events.size());
  return true;
}

void Engine::flush_sends() {
  if (!held_any_.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(mutex_);
  flush_held();
  settle();
  state_.outbox.deliver(lock, *sink_);
}

void Engine::flush_held() {
  // Closed ones are in the graveyard still: it is emptied after this only. Bulk data last, and a slice of it only; but
  // a peer that gets bulk data gets its control messages after them: they tell that it was sent, so it need not wake
  // for them alone.
  std::uint64_t left = slice();
  for (const int pass : {1, 2, 3}) {
    for (Connection* connection : held_) {
      if (pass_of(*connection) != pass) continue;
      if (pass != 2) {
        flush_now(*connection, slice());
      } else if (left >= kLeastSlice) {
        left -= std::min(left, flush_now(*connection, left));
      } else {
        make_due(*connection, false);
      }
    }
  }
  for (Connection* connection : held_) connection->held = false;
  held_.clear();
  held_any_.store(false, std::memory_order_relaxed);
}

bool Engine::poll() {
  polling_ = true;
  ++turn_;
  posts_in_turn_ = 0;
  flush_held();
  const bool did = take_events();
  const bool more = !due_.empty();
  serve_due();
  polling_ = false;
  if (sleepers_ == 0) graveyard_.clear();  // no event is left that may point at one
  return did || more;
}

bool Engine::take_events() {
  constexpr int kHotTurns = 4;  // in a row; then the others are looked at
  if (!fetched_.empty() || fetched_all_) return handle_fetched();
  const bool slept = slept_.exchange(false, std::memory_order_relaxed);
  if (slept && hot_turns_ < kHotTurns && read_hot()) {
    ++hot_turns_;
    return true;
  }
  if (!slept && dry_ && due_.empty() && hot_turns_ < kHotTurns && hot_ != nullptr && hot_hits_ > 0) {
    ++hot_turns_;
    return spin_on_hot();
  }
  hot_turns_ = 0;
  std::array<epoll_event, kEventsAtOnce> events;  // filled by the kernel up to n
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  dry_ = n <= 0;
  return handle({events.data(), static_cast<std::size_t>(std::max(n, 0))});
}

/// What wait() has brought.
bool Engine::handle_fetched() {
  fetched_all_ = false;
  handling_.swap(fetched_);
  const bool did = handle(handling_);
  handling_.clear();
  return did;
}

bool Engine::handle(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) on_event(*static_cast<Pollable*>(event.data.ptr), event.events);
  bool did = !events.empty();
  if (!deadlines_.empty()) did |= expire();
  if (events.empty() && next_sweep_ != MonoTime::never()) did |= sweep_idle();
  return did;
}

// Woken, a process with few peers is woken by the one that it spoke with last: reading its socket at once spares an
// epoll_wait. What else is ready stays so in the epoll set.
bool Engine::read_hot() {
  constexpr int kSure = 8;
  if (hot_ == nullptr || hot_hits_ <= 0) return false;
  const bool right = read(*hot_, slice()).anything;
  hot_hits_ = std::min(kSure, right ? hot_hits_ + 1 : hot_hits_ - 2);
  return right;
}

// Likewise a process that polls: three of four turns without work look at that socket alone.
bool Engine::spin_on_hot() { return read(*hot_, slice()).anything; }

void Engine::on_event(Pollable& pollable, std::uint32_t events) {
  switch (pollable.kind) {
    case Pollable::Kind::kConnection: return on_connection_event(static_cast<Connection&>(pollable), events);
    case Pollable::Kind::kListener: return accept_from(static_cast<Listener&>(pollable));
    case Pollable::Kind::kResolver: return on_resolved();
    case Pollable::Kind::kForeign: return;  // the core's descriptor: it wakes the sleeper, and the core removes it
    case Pollable::Kind::kTimer: {
      timer_.drain();
      sweep_idle();
      arm_timer();
    }
  }
}

void Engine::on_connection_event(Connection& connection, std::uint32_t events) {
  if (connection.closed) return;
  constexpr std::uint32_t kEnd = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if (connection.connecting) {
    if ((events & (EPOLLOUT | kEnd)) != 0) connect_ended(connection);
    return;
  }
  if ((events & EPOLLERR) != 0 && take_told(connection)) events &= ~static_cast<std::uint32_t>(EPOLLERR);
  if ((events & kEnd) != 0) connection.peer_closed = true;
  if ((events & EPOLLOUT) != 0 && connection.write_blocked) {
    connection.write_blocked = false;
    watch_again(connection);
    flush(connection);
  }
  if ((events & (EPOLLIN | kEnd)) == 0) return;
  if (connection.channel != 0) return make_due(connection, true);
  hot_hits_ += &connection == hot_ && hot_hits_ <= 0 ? 1 : 0;
  hot_ = &connection;
  read(connection, slice());
}

/// What the kernel says of memory that it was lent comes as an error of the socket; false: it was none of that.
bool Engine::take_told(Connection& connection) {
  if (!connection.queue().has_lent()) return false;
  const ZeroCopySends::Told told = connection.queue().take_told(connection.socket(), *connection.peer);
  counters_.zero_copy_sends += told.calls;
  counters_.zero_copy_sends_copied += told.copied;
  if (told.copied > 0 && tcp_options_.lend != TcpOptions::Lend::kAlways) connection.queue().lend(false);
  return told.calls > 0;
}

Engine::Got Engine::read(Connection& connection, std::uint64_t limit) {
  const std::uint64_t before = connection.bytes_read();
  const ReadStatus status = connection.read(*receive_scratch_, limit);
  const std::uint64_t bytes = connection.bytes_read() - before;
  counters_.received_bytes += bytes;
  if (connection.closed) return {bytes, true};
  if (connection.peer != nullptr) connection.peer->flush_all();
  if (status == ReadStatus::kMore) make_due(connection, true);
  if (status == ReadStatus::kLost) connection_failed(connection, false);
  if (status == ReadStatus::kProtocol) connection_failed(connection, true);
  return {bytes, status != ReadStatus::kDrained || bytes > 0};
}

void Engine::connection_failed(Connection& connection, bool protocol) {
  if (protocol) {
    ++counters_.protocol_errors;
    complain(connection.remote, "protocol error");
  }
  Peer* peer = connection.peer;
  if (peer == nullptr) {  // has not said a proper hello
    ++counters_.refused;
    return close_connection(&connection);
  }
  if (peer->state == PeerPhase::kConnecting) {
    if (protocol) peer->failure = "whoever listens there is no spate server";
    if (!protocol && !connection.connecting && !connection.expired)
      peer->failure = "whoever listens there closed the connection";
    return attempt_failed(*peer);
  }
  lose_peer(*peer, Errc::kConnectionLost);
}

void Engine::complain(const std::string& who, std::string_view what) {
  if (const auto more = complaints_.admit()) {
    SPATE_LOG("bmi/tcp", warn, "peer dropped peer={} reason={}{}", who, log::Quoted{what}, *more);
  }
}

void Engine::flush(Connection& connection) {
  if (!posting_ || !holding_.load(std::memory_order_relaxed)) {
    // In a turn bulk data has its place, and its limit, at the end.
    const bool later = connection.channel != 0 && (polling_ || (posting_ && gathers(connection)));
    if (later) return make_due(connection, false);
    flush_now(connection, slice());
    return;
  }
  if (std::exchange(connection.held, true)) return;
  held_.push_back(&connection);
  held_any_.store(true, std::memory_order_relaxed);
}

std::uint64_t Engine::flush_now(Connection& connection, std::uint64_t limit) {
  // A peer that makes this side answer without reading the answers cannot make it queue them without bound.
  constexpr std::size_t kMaxAnswers = 64 * 1024;
  if (connection.closed || connection.write_blocked || connection.connecting) {
    if (connection.queue().answers() > kMaxAnswers) state_.lose_later(*connection.peer, Errc::kConnectionLost);
    return 0;
  }
  const std::uint64_t before = connection.queue().bytes_sent();
  const std::uint64_t lent_before = connection.queue().bytes_lent();
  // Whole packets: a slice that ends with a small one costs up to a quarter of the bandwidth (bench/run bmi figure4).
  const std::uint64_t segment = connection.segment_bytes;
  const std::uint64_t most = limit > segment ? limit - limit % segment : limit;
  const FlushStatus status = connection.queue().flush(connection.socket(), *connection.peer, *send_scratch_, most);
  const std::uint64_t bytes = connection.queue().bytes_sent() - before;
  counters_.sent_bytes += bytes;
  counters_.lent_bytes += connection.queue().bytes_lent() - lent_before;
  if (status == FlushStatus::kEmpty) return bytes;
  if (status == FlushStatus::kMore) {
    make_due(connection, false);
    return bytes;
  }
  block(connection);
  if (status == FlushStatus::kBlocked) return bytes;
  if (status == FlushStatus::kBadFile) {
    const int error_number = connection.queue().error_number();
    complain(connection.remote, errno_error(error_number, "a file that was being sent cannot be read").message());
    state_.completed(*connection.queue().front_op(), errc_from_errno(error_number), 0);
  }
  state_.lose_later(*connection.peer, Errc::kConnectionLost);
  return bytes;
}

void Engine::begin_grace(Connection& connection, const Op& op) {
  if (connection.peer->stranger)
    return state_.lose_later(*connection.peer, Errc::kConnectionLost);  // no patience with them
  if (connection.deadline != MonoTime::never()) return;
  connection.grace_position = op.position;
  set_deadline(connection, std::chrono::milliseconds(tcp_options_.cancel_grace_ms));
}

bool Engine::expire() {
  const MonoTime now = clock_.now();
  bool did = false;
  while (Connection* due = deadlines_.take_due(now)) {
    Connection& connection = *due;
    did = true;
    Peer* peer = connection.peer;
    const bool open = peer != nullptr && peer->channels[connection.channel].connection == &connection;
    if (open && peer->stranger) {
      drop_stranger(connection, "not authenticated in time");
    } else if (!open) {
      connection.expired = true;
      if (peer != nullptr) {
        peer->failure = connection.connecting ? "that host does not answer" : "whoever listens there does not answer";
      }
      connection_failed(connection, false);
    } else if (connection.queue().is_front(connection.grace_position) ||
               connection.queue().has_lent(connection.grace_position)) {
      complain(connection.remote, "a cancelled message was not taken in time");
      lose_peer(*peer, Errc::kConnectionLost);
    }
  }
  if (did) arm_timer();
  return did;
}

void Engine::set_deadline(Connection& connection, Duration from_now) {
  deadlines_.set(connection, clock_.now() + from_now);
}

void Engine::arm_timer() { timer_.arm(std::min(next_sweep_, deadlines_.first())); }

/// False, with errno: the kernel is out of memory for it, or the user has used up fs.epoll.max_user_watches.
bool Engine::watch(int fd, std::uint32_t events, Pollable& pollable) {
  if (pollable.kind != Pollable::Kind::kTimer && pollable.kind != Pollable::Kind::kForeign) {
    used_.store(true, std::memory_order_relaxed);
  }
  epoll_event event{};
  event.events = events;
  event.data.ptr = &pollable;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Engine::block(Connection& connection) {
  connection.write_blocked = true;
  watch_again(connection);
}

void Engine::watch_again(Connection& connection) {
  // The edge may be behind, and the data or the room still there: modifying the entry makes epoll look once more.
  epoll_event event{};
  event.events = kConnectionEvents | (connection.write_blocked || connection.connecting ? EPOLLOUT : 0U);
  event.data.ptr = static_cast<Pollable*>(&connection);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket(), &event) == 0) return;
  complain(connection.remote, errno_error(errno, "epoll_ctl").message());
  state_.lose_later(*connection.peer, Errc::kConnectionLost);  // nothing would tell of its events any more
}

}  // namespace spate::bmi::tcp
