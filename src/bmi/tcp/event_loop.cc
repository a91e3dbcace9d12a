// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/event_loop.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace spate::bmi::tcp {

bool EventLoop::wait(std::unique_lock<BiasedMutex>& lock, Duration timeout) {
  if (!fetched_.empty() || parts_.slices.any_due()) {
    slept_.store(false, std::memory_order_relaxed);
    return true;
  }
  ++sleepers_;
  lock.unlock();
  std::array<epoll_event, kEventsAtOnce> events;  // filled by the kernel up to n
  const timespec limit{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  const timespec* const most = timeout.count() < 0 ? nullptr : &limit;
  const int size = static_cast<int>(events.size());
  const int n = ::epoll_pwait2(parts_.events.descriptor(), events.data(), size, most, nullptr);
  lock.lock();
  --sleepers_;
  slept_.store(false, std::memory_order_relaxed);
  dry_ = false;
  if (!parts_.events.used()) return true;  // the event is the core's, and no turn takes it
  if (n > 0) fetched_.insert(fetched_.end(), events.begin(), events.begin() + n);
  fetched_all_ = n < size;
  return true;
}

bool EventLoop::poll() {
  parts_.sends.begin_turn();
  const bool did = take_events();
  const bool more = parts_.slices.any_due();
  parts_.slices.serve(parts_.state.outbox.waiting(),
                      [this](Connection& connection, std::uint64_t limit) { return serve(connection, limit); });
  parts_.sends.end_turn();
  hot_.forget_closed();
  if (sleepers_ == 0) parts_.connections.free_closed();
  return did || more;
}

bool EventLoop::take_events() {
  if (!fetched_.empty() || fetched_all_) return handle_fetched();
  const bool slept = slept_.exchange(false, std::memory_order_relaxed);
  if (slept && read_hot()) {
    hot_.was_read_alone();
    return true;
  }
  Connection* const hot = hot_.to_read_first();
  if (!slept && dry_ && !parts_.slices.any_due() && hot != nullptr) {
    hot_.was_read_alone();
    return read(*hot, parts_.slices.size()).anything;
  }
  hot_.all_are_read();
  std::array<epoll_event, kEventsAtOnce> room;  // filled by the kernel as far as there are any
  const std::span<const epoll_event> events = parts_.events.look(room);
  dry_ = events.empty();
  return handle(events);
}

/// Handles the events that wait() brought.
bool EventLoop::handle_fetched() {
  fetched_all_ = false;
  handling_.swap(fetched_);
  const bool did = handle(handling_);
  handling_.clear();
  return did;
}

bool EventLoop::handle(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) on_event(*static_cast<Pollable*>(event.data.ptr), event.events);
  bool did = !events.empty();
  if (!parts_.connections.deadlines().empty()) did |= expire();
  if (events.empty() && parts_.idle.next() != MonoTime::never()) did |= parts_.idle.sweep();
  return did;
}

bool EventLoop::read_hot() {
  Connection* const hot = hot_.to_read_first();
  if (hot == nullptr) return false;
  const bool right = read(*hot, parts_.slices.size()).anything;
  hot_.guessed(right);
  return right;
}

void EventLoop::on_event(Pollable& pollable, std::uint32_t events) {
  switch (pollable.kind) {
    case Pollable::Kind::kConnection: return on_connection_event(static_cast<Connection&>(pollable), events);
    case Pollable::Kind::kListener: return parts_.listeners.accept_from(static_cast<Listener&>(pollable));
    case Pollable::Kind::kResolver: return parts_.connector.on_resolved();
    case Pollable::Kind::kForeign: return;  // the core's descriptor, which wakes the sleeper and which the core removes
    case Pollable::Kind::kTimer: {
      parts_.timer.drain();
      parts_.idle.sweep();
      arm_timer();
    }
  }
}

void EventLoop::on_connection_event(Connection& connection, std::uint32_t events) {
  if (connection.closed) return;
  constexpr std::uint32_t kEnd = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if (connection.connecting) {
    if ((events & (EPOLLOUT | kEnd)) == 0) return;
    if (!parts_.connector.connect_ended(connection)) return connection_failed(connection, false);
    if (!connection.securing) return;
  }
  if (connection.securing && !secure(connection, events)) return;
  if ((events & EPOLLERR) != 0 && take_reports(connection)) events &= ~static_cast<std::uint32_t>(EPOLLERR);
  if ((events & kEnd) != 0) connection.peer_closed = true;
  if ((events & EPOLLOUT) != 0 && connection.write_blocked) {
    connection.write_blocked = false;
    parts_.connections.watch_again(connection);
    parts_.sends.flush(connection);
  }
  if ((events & (EPOLLIN | kEnd)) == 0) return;
  if (connection.channel != 0) return parts_.slices.add(connection, true);
  hot_.reported(connection);
  read(connection, parts_.slices.size());
}

/// Goes on with the TLS handshake. False: the connection waits, or is gone. Otherwise it is open, and there may be more
/// to read already, which no event announces.
bool EventLoop::secure(Connection& connection, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) connection.write_blocked = false;
  const TlsStarts::Progress went = parts_.tls.go_on(connection);
  const bool outbound = connection.peer != nullptr;
  const bool open = went == TlsStarts::Progress::kDone && (!outbound || parts_.connector.say_hello(connection));
  if (open) read(connection, parts_.slices.size());
  // The other side may have refused this side's certificate in the meantime. This read fetches what it said.
  if (!open && went == TlsStarts::Progress::kDone) std::ignore = connection.read(*scratch_, 1);
  if (!open && went != TlsStarts::Progress::kWaits) connection_failed(connection, false);
  return open && !connection.closed;
}

/// Reads the kernel's reports on memory that it was lent, which come as errors of the socket. False: the error was none
/// of those.
bool EventLoop::take_reports(Connection& connection) {
  if (!connection.queue().has_lent()) return false;
  const ZeroCopySends::Reports reports = connection.queue().take_reports(connection.socket(), *connection.peer);
  TcpCounters& counters = parts_.state.tcp_counters;
  counters.zero_copy_sends += reports.calls;
  counters.zero_copy_sends_copied += reports.copied;
  const bool always = parts_.state.tcp_options.lend == TcpOptions::Lend::kAlways;
  if (reports.copied > 0 && !always) connection.queue().lend(false);
  return reports.calls > 0;
}

EventLoop::Arrivals EventLoop::read(Connection& connection, std::uint64_t limit) {
  const std::uint64_t before = connection.bytes_read();
  const ReadStatus status = connection.read(*scratch_, limit);
  const std::uint64_t bytes = connection.bytes_read() - before;
  parts_.state.tcp_counters.received_bytes += bytes;
  if (connection.closed) return {bytes, true};
  if (connection.peer != nullptr) connection.peer->flush_all();
  if (status == ReadStatus::kMore) parts_.slices.add(connection, true);
  if (status == ReadStatus::kLost) connection_failed(connection, false);
  if (status == ReadStatus::kProtocol) connection_failed(connection, true);
  return {bytes, status != ReadStatus::kDrained || bytes > 0};
}

std::uint64_t EventLoop::serve(Connection& connection, std::uint64_t limit) {
  std::uint64_t bytes = 0;
  if (std::exchange(connection.to_write, false)) bytes += parts_.sends.write(connection, limit);
  if (!connection.closed && std::exchange(connection.to_read, false)) bytes += read(connection, limit).bytes;
  return bytes;
}

void EventLoop::connection_failed(Connection& connection, bool protocol) {
  if (protocol) {
    ++parts_.state.tcp_counters.protocol_errors;
    parts_.state.peer_log.peer_dropped(connection.remote, "protocol error");
  }
  Peer* peer = connection.peer;
  if (peer == nullptr) {  // it has not sent a valid hello
    ++parts_.state.tcp_counters.refused;
    return parts_.connections.close(&connection);
  }
  if (peer->state != PeerPhase::kConnecting) return parts_.connections.lose_peer(*peer, Errc::kConnectionLost);
  const bool said = connection.stream() != nullptr && !connection.stream()->failure().empty();
  if (said && !connection.securing) parts_.tls.note_end(connection);
  if (said) return parts_.connector.attempt_failed(*peer);
  if (protocol) peer->failure = "the process that listens there is no spate server";
  if (!protocol && !connection.connecting && !connection.expired)
    peer->failure = is_tls(connection.begun_header())
                        ? "the server speaks TLS: its spate.toml may have tcp+tls:// for this tcp:// address"
                        : "the process that listens there closed the connection";
  parts_.connector.attempt_failed(*peer);
}

bool EventLoop::expire() {
  const MonoTime now = parts_.state.clock.now();
  bool did = false;
  while (Connection* due = parts_.connections.deadlines().take_due(now)) {
    on_deadline(*due);
    did = true;
  }
  if (did) arm_timer();
  return did;
}

void EventLoop::on_deadline(Connection& connection) {
  Peer* peer = connection.peer;
  const bool open = peer != nullptr && peer->channels[connection.channel].connection == &connection;
  if (!open) {
    connection.expired = true;
    if (peer != nullptr)
      peer->failure = connection.connecting ? "the host does not answer"
                      : connection.securing ? "the process that listens there does not finish the TLS handshake"
                                            : "the process that listens there does not answer";
    return connection_failed(connection, false);
  }
  if (peer->unauthenticated) return parts_.connections.drop_unauthenticated(connection, "not authenticated in time");
  SendQueue& queue = connection.queue();
  if (!queue.is_front(connection.grace_position) && !queue.has_lent(connection.grace_position)) return;
  parts_.state.peer_log.peer_dropped(connection.remote, "a cancelled message was not taken in time");
  parts_.connections.lose_peer(*peer, Errc::kConnectionLost);
}

void EventLoop::arm_timer() { parts_.timer.arm(std::min(parts_.idle.next(), parts_.connections.deadlines().first())); }

}  // namespace spate::bmi::tcp
