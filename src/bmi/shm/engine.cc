// SPDX-License-Identifier: Apache-2.0
// Posts, the life of peers, and delivery to the core.
#include "bmi/shm/engine.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "base/check.h"

namespace spate::bmi::shm {

std::unique_ptr<ShmModule> make_shm_module(const Clock& clock, ShmOptions options) {
  return std::make_unique<Engine>(clock, std::move(options));
}

Engine::Engine(const Clock& clock, ShmOptions options)
    : clock_(clock),
      shm_options_(std::move(options)),
      own_uid_(::geteuid()),
      timer_(clock),
      arenas_(shm_options_.arena_bytes),
      complaints_(clock),
      strangers_log_(clock) {
  SPATE_CHECK(is_valid(shm_options_.geometry) && shm_options_.arena_bytes > 0);
  SPATE_CHECK(shm_options_.gone_peers_kept >= 1);
}

Result<void> Engine::start(Sink& sink, const NetworkOptions& options) {
  sink_ = &sink;
  state_.options = &options;
  state_.limits = protocol::limits_of(options, shm_options_.max_announced);
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !timer_.open() || !wake_ || !acceptor_.open()) return errno_error(errno, "start of the shm module");
  if (!watch(timer_.descriptor(), EPOLLIN, timer_pollable_) ||
      !watch(wake_.get(), EPOLLIN | EPOLLET, foreign_pollable_))
    return errno_error(errno, "start of the shm module");
  return {};
}

Peer& Engine::add_peer() {
  return peers_.add(
      [this](PeerId id) { return std::make_unique<Peer>(static_cast<PeerHost&>(*this), state_, id, random_.next()); });
}

Result<PeerId> Engine::lookup(std::string_view url, Address address) {
  SPATE_TRY(Endpoint endpoint, parse_url(url));
  if (endpoint.name == "*") return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" names no single server");
  const std::lock_guard lock(mutex_);
  Peer& peer = add_peer();
  peer.outbound = true;
  peer.address = address;
  peer.url = std::string(url);
  peer.remote = std::move(endpoint);
  random_.fill(peer.link_id);
  return peer.id;
}

PeerState Engine::peer_state(PeerId id) const {
  const std::lock_guard lock(mutex_);
  const Peer* peer = peers_.find(id);
  if (peer == nullptr) return {};
  PeerState state = peer->describe();
  state.same_host = true;
  if (peer->link != nullptr) {
    state.uid = peer->link->credentials.uid;
    state.reached = peer->link->reached;
  }
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
  strangers_.remove(peer->link);
  deadlines_.clear(*peer->link);
  // The same process, before it came back.
  if (Peer* before = peers_.set_inbound(*peer)) lose_peer(*before, Errc::kConnectionLost);
  peer->widen();
  settle();
  state_.outbox.deliver(lock, *sink_);
}

Result<PostResult> Engine::post_send(const Post& p) { return post(p, false, false); }
Result<PostResult> Engine::post_recv(const Post& p) { return post(p, true, false); }
Result<PostResult> Engine::post_send_unexpected(const Post& p) { return post(p, false, true); }

Result<PostResult> Engine::post(const Post& post, bool receive, bool unexpected) {
  std::unique_lock lock(mutex_);
  Result<PostResult> result = Errc::kConnectionLost;
  if (Peer* peer = peers_.find(post.peer)) result = peer->post(post, receive, unexpected);
  settle();
  state_.outbox.deliver(lock, *sink_);
  return result;
}

bool Engine::send_at_once(const Post& post, bool unexpected) {
  const std::lock_guard lock(mutex_);
  Peer* peer = peers_.find(post.peer);
  if (peer == nullptr || !peer->usable_for(post)) return false;
  return peer->send_at_once(post, unexpected);
}

void Engine::cancel(PeerId id, OpId op_id) {
  std::unique_lock lock(mutex_);
  Op* op = state_.find_op(op_id);
  Peer* peer = peers_.find(id);
  if (op != nullptr && op->peer == peer) peer->cancel(*op);
  settle();
  state_.outbox.deliver(lock, *sink_);
}

void Engine::consumed(PeerId id, std::uint64_t charge) {
  const std::lock_guard lock(mutex_);
  Peer* peer = peers_.find(id);
  if (peer != nullptr && peer->consumed(charge)) peer->give_back_now();
}

Result<void> Engine::pass_descriptor(PeerId id, Tag tag, int fd) {
  if (fd < 0) return Error(Errc::kBadDescriptor, "pass a descriptor");
  const std::lock_guard lock(mutex_);
  Peer* peer = peers_.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp) return Error(Errc::kConnectionLost, "pass a descriptor");
  const int failed = peer->link->send_note(Note{Note::Kind::kDescriptor, 0, tag.value}, fd);
  if (failed == 0) return {};
  // The kernel bounds what a user may have on its way to processes that do not look (ETOOMANYREFS).
  if (failed == EAGAIN || failed == ETOOMANYREFS) return Error(Errc::kBusy, "pass a descriptor");
  return errno_error(failed, "pass a descriptor");
}

Result<UniqueFd> Engine::take_descriptor(PeerId id, Tag tag) {
  Result<UniqueFd> taken = Errc::kNotFound;
  std::unique_lock lock(mutex_);
  Peer* peer = peers_.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp) return Error(Errc::kConnectionLost, "take a descriptor");
  // On the socket before the message that told of it; what ended it besides is for the next turn to see.
  (void)read_notes(*peer->link);
  std::deque<PassedDescriptor>& kept = peer->link->descriptors;
  const auto found = std::ranges::find(kept, tag, &PassedDescriptor::tag);
  if (found != kept.end()) {
    taken = std::move(found->fd);
    kept.erase(found);
  }
  settle();
  state_.outbox.deliver(lock, *sink_);
  return taken;
}

MutableByteView Engine::mem_alloc(std::size_t size) {
  const std::lock_guard lock(mutex_);
  return arenas_.allocate(size);
}

void Engine::mem_free(MutableByteView memory) {
  const std::lock_guard lock(mutex_);
  arenas_.free(memory);
}

ShmCounters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  ShmCounters all = counters_;
  all.dropped_messages = state_.counters.dropped_messages;
  all.aborted = state_.counters.aborted;
  return all;
}

std::vector<ModuleCount> Engine::counts() const {
  const ShmCounters now = counters();
  return {{"protocol_errors", now.protocol_errors},
          {"dropped_messages", now.dropped_messages},
          {"connections_lost", now.connections_lost},
          {"refused", now.refused},
          {"strangers_dropped", now.strangers_dropped},
          {"located_bytes", now.located_bytes},
          {"lane_bytes", now.lane_bytes},
          {"sent_at_once", now.sent_at_once},
          {"aborted", now.aborted},
          {"dropped_descriptors", now.dropped_descriptors}};
}

void Engine::settle() {
  while (!state_.lost.empty()) {
    const protocol::Loss loss = state_.lost.back();
    state_.lost.pop_back();
    if (Peer* peer = peers_.find(loss.peer)) lose_peer(*peer, loss.status);
  }
}

void Engine::lose_peer(Peer& peer, Errc status) {
  if (peer.state == PeerPhase::kIdle || peer.state == PeerPhase::kGone) return;
  if (peer.state == PeerPhase::kUp) ++counters_.connections_lost;
  if (status == Errc::kProtocol) {
    ++counters_.protocol_errors;
    complain(peer.link->remote, "protocol error");
    status = Errc::kConnectionLost;
  }
  close_link(peer.link);
  peer.state = peer.outbound ? PeerPhase::kIdle : PeerPhase::kGone;
  peer.disconnected(status);
  if (peer.outbound) return;
  if (std::unique_ptr<Peer> forgotten = peers_.left(peer, shm_options_.gone_peers_kept)) {
    state_.outbox.forgotten(std::move(forgotten));
  }
}

}  // namespace spate::bmi::shm
