// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/engine.h"

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace spate::bmi::ofi {

std::unique_ptr<OfiModule> make_ofi_module(const Clock& clock, OfiOptions options) {
  return std::make_unique<Engine>(clock, options);
}

Engine::Engine(const Clock& clock, const OfiOptions& options)
    : ModuleBase(clock, options, static_cast<PeerHost&>(*this)),
      timer_(clock),
      pending_peers_(clock),
      endpoints_(clock, state_.ofi_options, events_, pending_peers_),
      loop_(EventLoop::Parts{state_, pending_peers_, endpoints_, sessions_, connector_, acceptance_, health_check_,
                             timer_}) {
  SPATE_CHECK(options.gone_peers_kept >= 1 && options.inbound_limit >= 1);
}

Engine::~Engine() {
  // How long the destructor lets reported packets leave and tells connected peers about the end.
  constexpr Duration kTimeout = std::chrono::milliseconds(200);
  for (const auto& [id, peer] : state_.peers.all()) {
    if (peer->state != PeerPhase::kUp || peer->route == nullptr) continue;
    peer->say_bye();
    peer->wire->close_route(*std::exchange(peer->route, nullptr));
  }
  endpoints_.close(state_.clock.now() + kTimeout);
}

Result<void> Engine::start(Sink& sink, const NetworkOptions& options) {
  sink_ = &sink;
  state_.options = &options;
  state_.limits = protocol::limits_of(options, state_.ofi_options.max_announced);
  state_.limits.max_packet = state_.ofi_options.packet_bytes;
  const bool opened = events_.open() && timer_.open() && pending_peers_.open() &&
                      events_.add(timer_.descriptor(), EPOLLIN, nullptr) &&
                      events_.add(pending_peers_.wake_descriptor(), EPOLLIN, nullptr);
  if (!opened) return errno_error(errno, "start of the ofi module");
  endpoints_.watch_pages();
  return {};
}

Result<std::string> Engine::listen(std::string_view url, ContextId context) {
  SPATE_TRY(const Target target, parse_url(url));
  if (target.kind == Target::Kind::kRaw) {
    return Error(
        Errc::kBadAddress,
        "\"" + std::string(url) + "\": the provider chooses such addresses; listen at ofi+" + target.suffix + "://*");
  }
  const std::lock_guard lock(mutex_);
  SPATE_TRY(Endpoint * endpoint, endpoints_.listen(target));
  endpoint->context = context;
  const Wire& wire = *endpoint->wire;
  return url_of(target.suffix, wire.text_of(wire.name()), wire.name());
}

Result<PeerId> Engine::lookup(std::string_view url, Address address) {
  SPATE_TRY(Target target, parse_url(url));
  if (target.kind == Target::Kind::kAny || target.service == "0") {
    return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" does not name one server");
  }
  return add_peer(url, address, std::move(target));
}

void Engine::complete(const Peer& peer, PeerState& state) {
  state.same_host = peer.wire != nullptr && peer.wire->on_this_host();
}

void Engine::admitted(Peer& peer) {
  state_.unauthenticated_peers.remove(&peer);
  state_.admitted(peer, sessions_);
}

bool Engine::send_at_once(const Post& post, bool unexpected) {
  const std::lock_guard lock(mutex_);
  Peer* peer = state_.peers.find(post.peer);
  return peer != nullptr && peer->usable_for(post) && peer->send_at_once(post, unexpected);
}

void Engine::consumed(PeerId id, std::uint64_t charge) {
  std::unique_lock lock(mutex_);
  Peer* peer = state_.peers.find(id);
  if (peer != nullptr && peer->consumed(charge)) peer->turn();
  deliver(lock);
}

bool Engine::prepare_to_wait() {
  const std::lock_guard lock(mutex_);
  return loop_.prepare_to_wait();
}

MonoTime Engine::begin_grace() {
  pending_peers_.sweep_soon();
  return state_.clock.now() + std::chrono::milliseconds(state_.ofi_options.cancel_grace_ms);
}

Result<void> Engine::mem_register(MutableByteView memory) {
  const std::lock_guard lock(mutex_);
  return endpoints_.keep(memory);
}

void Engine::mem_deregister(MutableByteView memory) {
  const std::lock_guard lock(mutex_);
  endpoints_.drop(memory);
}

OfiCounters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  OfiCounters all = state_.ofi_counters;
  all.dropped_messages = state_.counters.dropped_messages;
  all.aborted = state_.counters.aborted;
  return all;
}

PinCounters Engine::pin_counters() const {
  const std::lock_guard lock(mutex_);
  return endpoints_.pin_counters();
}

std::vector<ModuleCount> Engine::counts() const {
  const OfiCounters c = counters();
  const PinCounters p = pin_counters();
  std::vector<ModuleCount> all;
#define SPATE_OFI_COUNT(name, what) all.push_back({#name, c.name});
  SPATE_OFI_COUNTERS(SPATE_OFI_COUNT)
#undef SPATE_OFI_COUNT
  all.push_back({"registration_hits", p.hits});
  all.push_back({"registration_misses", p.misses});
  all.push_back({"registration_evictions", p.evictions});
  all.push_back({"registration_merges", p.merges});
  all.push_back({"registration_invalidations", p.invalidations});
  all.push_back({"registration_refused", p.refused});
  all.push_back({"registered_bytes", p.pinned_bytes});
  all.push_back({"deregistered_bytes", p.unpinned_bytes});
  return all;
}

}  // namespace spate::bmi::ofi
