// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/engine.h"

#include <cerrno>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace spate::bmi::tcp {

std::unique_ptr<TcpModule> make_tcp_module(const Clock& clock, TcpOptions options) {
  return std::make_unique<Engine>(clock, options);
}

Engine::Engine(const Clock& clock, const TcpOptions& options)
    : ModuleBase(clock, options, static_cast<PeerHost&>(*this)),
      timer_(clock),
      loop_(EventLoop::Parts{state_, events_, connections_, slices_, sends_, idle_, tls_, listeners_, connector_,
                             timer_}) {
  SPATE_CHECK(options.bulk_connections >= 1 && options.bulk_connections <= kMaxBulkConnections);
  SPATE_CHECK(options.gone_peers_kept >= 1);
  SPATE_CHECK(options.slice_bytes >= BulkSlices::kLeast && options.quiet_slice_bytes >= BulkSlices::kLeast);
}

Result<void> Engine::start(Sink& sink, const NetworkOptions& options) {
  sink_ = &sink;
  state_.options = &options;
  state_.limits = protocol::limits_of(options, state_.tcp_options.max_announced);
  const bool opened = events_.open() && timer_.open() && slices_.open() && listeners_.open() &&
                      events_.wake_for_timer(timer_.descriptor()) && events_.wake_for(slices_.descriptor());
  if (!opened) return errno_error(errno, "start of the tcp module");
  return {};
}

/// Parses the URL. Loads TLS if it needs it.
Result<Endpoint> Engine::endpoint_of(std::string_view url) {
  SPATE_TRY(Endpoint endpoint, parse_url(url));
  if (!endpoint.secure) return endpoint;
  const std::lock_guard lock(mutex_);
  SPATE_TRY(std::ignore, tls_.ready());
  return endpoint;
}

Result<std::string> Engine::listen(std::string_view url, ContextId context) {
  SPATE_TRY(const Endpoint endpoint, endpoint_of(url));
  SPATE_TRY(UniqueFd socket, listen_on(endpoint));
  std::string advertised = advertised_url(endpoint, socket.get());
  const std::lock_guard lock(mutex_);
  if (!listeners_.add(std::move(socket), context, endpoint.secure))
    return errno_error(errno, "listen on " + std::string(url));
  return advertised;
}

Result<PeerId> Engine::lookup(std::string_view url, Address address) {
  SPATE_TRY(Endpoint endpoint, endpoint_of(url));
  if (endpoint.host == "*" || endpoint.port == 0) {
    return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" does not name one server");
  }
  return add_peer(url, address, std::move(endpoint));
}

void Engine::complete(const Peer& peer, PeerState& state) {
  state.same_host = peer.same_host;
  state.reached = peer.reached;
  state.security = peer.security;
  state.binding = peer.binding;
}

void Engine::set_link_key(PeerId id, std::uint32_t connection, const Key& key) {
  std::unique_lock lock(mutex_);
  Peer* peer = state_.peers.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp) return;
  if (connection != 0 && connection != connection_mark(peer->connections)) return;
  if (peer->has_bulk()) {
    state_.peer_log.peer_dropped(peer->url, "it opened a bulk connection before it was authenticated");
    lose_peer(*peer, Errc::kConnectionLost);
  } else {
    peer->link_key = key;
  }
  deliver(lock);
}

Result<PostResult> Engine::post(const Post& post, bool receive, bool unexpected) {
  std::unique_lock lock(mutex_);
  sends_.begin_post();
  if (post.message_class == MessageClass::kControl) slices_.control_moved();
  const Result<PostResult> result = begin(post, receive, unexpected);
  if (sends_.end_post(!receive)) poll();
  deliver(lock);
  return result;
}

void Engine::consumed(PeerId id, std::uint64_t charge) {
  std::unique_lock lock(mutex_);
  sends_.begin_post();
  Peer* peer = state_.peers.find(id);
  if (peer != nullptr && peer->consumed(charge)) peer->flush_all();
  (void)sends_.end_post(false);
  deliver(lock);
}

void Engine::flush_sends() {
  if (!sends_.holds_any()) return;
  std::unique_lock lock(mutex_);
  sends_.flush_held();
  deliver(lock);
}

bool Engine::wait(Duration timeout) {
  std::unique_lock lock(mutex_);
  return loop_.wait(lock, timeout);
}

void Engine::settle() {
  state_.take_losses([this](Peer& peer, Errc status) { connections_.lose_peer(peer, status); });
  slices_.show();
}

void Engine::begin_grace(Connection& connection, const Op& op) {
  if (connection.peer->unauthenticated)
    return state_.lose_later(*connection.peer, Errc::kConnectionLost);  // an unauthenticated peer gets no grace period
  if (connection.deadline != MonoTime::never()) return;
  connection.grace_position = op.position;
  connections_.set_deadline(connection, std::chrono::milliseconds(state_.tcp_options.cancel_grace_ms));
}

bool Engine::lends(const Peer& peer) const {
  const TcpOptions::Lend lend = state_.tcp_options.lend;
  return lend == TcpOptions::Lend::kAlways || (lend == TcpOptions::Lend::kAuto && !peer.same_host);
}

TcpCounters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  TcpCounters all = state_.tcp_counters;
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

}  // namespace spate::bmi::tcp
