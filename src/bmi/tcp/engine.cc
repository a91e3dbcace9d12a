// SPDX-License-Identifier: Apache-2.0
// Posts, the life of peers, and delivery to the core.
#include "bmi/tcp/engine.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "base/check.h"

namespace spate::bmi::tcp {

std::unique_ptr<TcpModule> make_tcp_module(const Clock& clock, TcpOptions options) {
  return std::make_unique<Engine>(clock, options);
}

Engine::Engine(const Clock& clock, TcpOptions options)
    : clock_(clock),
      tcp_options_(options),
      timer_(clock),
      complaints_(clock),
      strangers_log_(clock),
      receive_scratch_(std::make_unique<ReceiveScratch>()),
      send_scratch_(std::make_unique<SendScratch>()) {
  SPATE_CHECK(options.bulk_connections >= 1 && options.bulk_connections <= kMaxBulkConnections);
  SPATE_CHECK(options.gone_peers_kept >= 1);
  SPATE_CHECK(options.slice_bytes >= kLeastSlice && options.quiet_slice_bytes >= kLeastSlice);
}

Result<void> Engine::start(Sink& sink, const NetworkOptions& options) {
  sink_ = &sink;
  state_.options = &options;
  state_.limits = protocol::limits_of(options, tcp_options_.max_announced);
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  due_event_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !timer_.open() || !acceptor_.open() || !due_event_)
    return errno_error(errno, "start of the tcp module");
  if (!watch(timer_.descriptor(), EPOLLIN, timer_pollable_) || !watch(due_event_.get(), EPOLLIN, foreign_pollable_))
    return errno_error(errno, "start of the tcp module");
  return {};
}

Peer& Engine::add_peer() {
  return peers_.add(
      [this](PeerId id) { return std::make_unique<Peer>(static_cast<PeerHost&>(*this), state_, id, random_.next()); });
}

Result<PeerId> Engine::lookup(std::string_view url, Address address) {
  SPATE_TRY(Endpoint endpoint, parse_url(url));
  if (endpoint.host == "*" || endpoint.port == 0) {
    return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" names no single server");
  }
  const std::lock_guard lock(mutex_);
  Peer& peer = add_peer();
  peer.outbound = true;
  peer.address = address;
  peer.url = std::string(url);
  peer.remote = std::move(endpoint);
  peer.bulk_count = tcp_options_.bulk_connections;
  random_.fill(peer.link_id);
  return peer.id;
}

PeerState Engine::peer_state(PeerId id) const {
  const std::lock_guard lock(mutex_);
  const Peer* peer = peers_.find(id);
  if (peer == nullptr) return {};
  PeerState state = peer->describe();
  state.same_host = peer->same_host;
  state.reached = peer->reached;
  return state;
}

std::uint32_t Engine::connection(PeerId id) const {
  const std::lock_guard lock(mutex_);
  const Peer* peer = peers_.find(id);
  return peer == nullptr ? 0 : peer->connection();
}

void Engine::disconnect(PeerId id) {
  std::unique_lock lock(mutex_);
  if (Peer* peer = peers_.find(id)) lose_peer(*peer, Errc::kConnectionLost);
  state_.outbox.deliver(lock, *sink_);
}

void Engine::admit(PeerId id) {
  std::unique_lock lock(mutex_);
  Peer* peer = peers_.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp || !std::exchange(peer->stranger, false)) return;
  Connection& connection = *peer->channels[0].connection;
  strangers_.remove(&connection);
  deadlines_.clear(connection);
  // The same process, before it came back.
  if (Peer* before = peers_.set_inbound(*peer)) lose_peer(*before, Errc::kConnectionLost);
  settle();
  state_.outbox.deliver(lock, *sink_);
}

void Engine::set_link_key(PeerId id, std::uint32_t connection, const Key& key) {
  std::unique_lock lock(mutex_);
  Peer* peer = peers_.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp) return;
  if (connection != 0 && connection != connection_mark(peer->connections)) return;
  if (peer->has_bulk()) {
    complain(peer->url, "it opened a bulk connection before it had proved who it is");
    lose_peer(*peer, Errc::kConnectionLost);
  } else {
    peer->link_key = key;
  }
  settle();
  state_.outbox.deliver(lock, *sink_);
}

Result<PostResult> Engine::post_send(const Post& p) { return post(p, false, false); }
Result<PostResult> Engine::post_recv(const Post& p) { return post(p, true, false); }
Result<PostResult> Engine::post_send_unexpected(const Post& p) { return post(p, false, true); }

Result<PostResult> Engine::post(const Post& post, bool receive, bool unexpected) {
  std::unique_lock lock(mutex_);
  posting_ = true;
  if (post.message_class == MessageClass::kControl) since_control_ = 0;
  const Result<PostResult> result = state_.post(post, peers_.find(post.peer), receive, unexpected);
  posting_ = false;
  // A caller that posts many sends need not finish posting before the first ones leave. bench/run bmi figure4, 1 KiB: a
  // turn after 128 or 512 posts makes it 1.20 times as fast.
  constexpr int kPostsInTurn = 128;
  if (!receive && ++posts_in_turn_ >= kPostsInTurn) poll();
  settle();
  state_.outbox.deliver(lock, *sink_);
  return result;
}

void Engine::cancel(PeerId id, OpId op_id) {
  std::unique_lock lock(mutex_);
  Op* op = state_.find_op(op_id);
  if (op != nullptr && op->peer->id == id) op->peer->cancel(*op);
  settle();
  state_.outbox.deliver(lock, *sink_);
}

void Engine::consumed(PeerId id, std::uint64_t charge) {
  std::unique_lock lock(mutex_);
  posting_ = true;
  Peer* peer = peers_.find(id);
  if (peer != nullptr && peer->consumed(charge)) peer->flush_all();
  posting_ = false;
  settle();
  state_.outbox.deliver(lock, *sink_);
}

TcpCounters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  TcpCounters all = counters_;
  all.sent_messages = state_.counters.sent_messages;
  all.received_messages = state_.counters.received_messages;
  all.credit_stalls = state_.counters.credit_stalls;
  all.dropped_messages = state_.counters.dropped_messages;
  return all;
}

std::vector<ModuleCount> Engine::counts() const {
  const TcpCounters now = counters();
  return {
#define SPATE_TCP_COUNT(name, what) ModuleCount{#name, now.name},
      SPATE_TCP_COUNTERS(SPATE_TCP_COUNT)
#undef SPATE_TCP_COUNT
  };
}

void Engine::settle() {
  while (!state_.lost.empty()) {
    const protocol::Loss loss = state_.lost.back();
    state_.lost.pop_back();
    if (Peer* peer = peers_.find(loss.peer)) lose_peer(*peer, loss.status);
  }
  show_due();
}

void Engine::lose_peer(Peer& peer, Errc status) {
  if (peer.state == PeerPhase::kIdle || peer.state == PeerPhase::kGone) return;
  if (peer.state == PeerPhase::kUp && status != Errc::kOk) ++counters_.connections_lost;
  for (Channel& channel : peer.channels) {
    close_connection(channel.connection);
    close_connection(channel.opening);
  }
  peer.state = peer.outbound ? PeerPhase::kIdle : PeerPhase::kGone;
  peer.disconnected(status);
  if (peer.outbound) return;
  if (std::unique_ptr<Peer> forgotten = peers_.left(peer, tcp_options_.gone_peers_kept)) {
    state_.outbox.forgotten(std::move(forgotten));
  }
}

}  // namespace spate::bmi::tcp
