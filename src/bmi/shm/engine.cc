// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/engine.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace spate::bmi::shm {

std::unique_ptr<ShmModule> make_shm_module(const Clock& clock, ShmOptions options) {
  return std::make_unique<Engine>(clock, std::move(options));
}

Engine::Engine(const Clock& clock, ShmOptions options)
    : ModuleBase(clock, std::move(options), static_cast<PeerHost&>(*this)),
      timer_(clock),
      loop_(EventLoop::Parts{state_, events_, links_, polled_, notes_, listeners_, connector_, timer_}) {
  SPATE_CHECK(is_valid(state_.shm_options.geometry) && state_.shm_options.arena_bytes > 0);
  SPATE_CHECK(state_.shm_options.gone_peers_kept >= 1);
}

Result<void> Engine::start(Sink& sink, const NetworkOptions& options) {
  sink_ = &sink;
  state_.options = &options;
  state_.limits = protocol::limits_of(options, state_.shm_options.max_announced);
  const bool opened = events_.open() && timer_.open() && listeners_.open() && loop_.open() &&
                      events_.wake_for_timer(timer_.descriptor());
  if (!opened) return errno_error(errno, "start of the shm module");
  return {};
}

Result<std::string> Engine::listen(std::string_view url, ContextId context) {
  const std::lock_guard lock(mutex_);
  return listeners_.listen(url, context);
}

Result<PeerId> Engine::lookup(std::string_view url, Address address) {
  SPATE_TRY(Endpoint endpoint, parse_url(url));
  if (endpoint.name == "*") return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" does not name one server");
  return add_peer(url, address, std::move(endpoint));
}

void Engine::complete(const Peer& peer, PeerState& state) {
  state.same_host = true;
  if (peer.link == nullptr) return;
  state.uid = peer.link->credentials.uid;
  state.reached = peer.link->reached;
}

bool Engine::send_at_once(const Post& post, bool unexpected) {
  const std::lock_guard lock(mutex_);
  Peer* peer = state_.peers.find(post.peer);
  return peer != nullptr && peer->usable_for(post) && peer->send_at_once(post, unexpected);
}

void Engine::consumed(PeerId id, std::uint64_t charge) {
  const std::lock_guard lock(mutex_);
  Peer* peer = state_.peers.find(id);
  if (peer != nullptr && peer->consumed(charge)) peer->give_back_now();
}

bool Engine::prepare_to_wait() {
  const std::lock_guard lock(mutex_);
  return loop_.prepare_to_wait();
}

void Engine::keep_turning(Peer& peer) {
  polled_.add(*peer.link);
  loop_.wake();
}

Result<void> Engine::pass_descriptor(PeerId id, Tag tag, int fd) {
  if (fd < 0) return Error(Errc::kBadDescriptor, "pass a descriptor");
  const std::lock_guard lock(mutex_);
  Peer* peer = state_.peers.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp) return Error(Errc::kConnectionLost, "pass a descriptor");
  const int failed = peer->link->send_note(Note{Note::Kind::kDescriptor, 0, tag.value}, fd);
  if (failed == 0) return {};
  // The kernel limits how many descriptors of a user may be in flight to processes that do not receive them
  // (ETOOMANYREFS).
  if (failed == EAGAIN || failed == ETOOMANYREFS) return Error(Errc::kBusy, "pass a descriptor");
  return errno_error(failed, "pass a descriptor");
}

Result<UniqueFd> Engine::take_descriptor(PeerId id, Tag tag) {
  Result<UniqueFd> taken = Errc::kNotFound;
  std::unique_lock lock(mutex_);
  Peer* peer = state_.peers.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp) return Error(Errc::kConnectionLost, "take a descriptor");
  // The descriptor is on the socket before the message that mentions it arrives. If the socket has ended, the next turn
  // handles that.
  (void)notes_.read(*peer->link);
  std::deque<PassedDescriptor>& kept = peer->link->descriptors;
  const auto found = std::ranges::find(kept, tag, &PassedDescriptor::tag);
  if (found != kept.end()) {
    taken = std::move(found->fd);
    kept.erase(found);
  }
  deliver(lock);
  return taken;
}

MutableByteView Engine::mem_alloc(std::size_t size) {
  const std::lock_guard lock(mutex_);
  return state_.arenas.allocate(size);
}

void Engine::mem_free(MutableByteView memory) {
  const std::lock_guard lock(mutex_);
  state_.arenas.free(memory);
}

ShmCounters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  ShmCounters all = state_.shm_counters;
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
          {"unauthenticated_dropped", now.unauthenticated_dropped},
          {"located_bytes", now.located_bytes},
          {"lane_bytes", now.lane_bytes},
          {"sent_at_once", now.sent_at_once},
          {"aborted", now.aborted},
          {"dropped_descriptors", now.dropped_descriptors}};
}

}  // namespace spate::bmi::shm
