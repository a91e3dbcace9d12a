// SPDX-License-Identifier: Apache-2.0
// Posts, the life of peers, and delivery to the core.
#include "bmi/ofi/engine.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::ofi {

std::unique_ptr<OfiModule> make_ofi_module(const Clock& clock, OfiOptions options) {
  return std::make_unique<Engine>(clock, options);
}

Engine::Engine(const Clock& clock, OfiOptions options)
    : clock_(clock), ofi_options_(options), timer_(clock), complaints_(clock), strangers_log_(clock) {
  SPATE_CHECK(options.gone_peers_kept >= 1 && options.inbound_limit >= 1);
}

namespace {

struct Deaf final : WireClient {
  void on_packet(ByteView) override {}
  void on_sent(Route&, bool) override {}
  void on_read(void*, bool) override {}
};

}  // namespace

/// Receives and drops everything that still arrives, where that is necessary before the endpoint is closed.
void Engine::quieten(Wire& wire) {
  constexpr Duration kQuiet = std::chrono::milliseconds(50);
  constexpr Duration kPatience = std::chrono::milliseconds(250);
  if (!wire.closes_quietly_only()) return;
  Deaf deaf;
  const MonoTime last = clock_.now() + kPatience;
  MonoTime quiet = clock_.now() + kQuiet;
  while (clock_.now() < std::min(quiet, last)) {
    if (wire.poll(deaf)) quiet = clock_.now() + kQuiet;
  }
}

Engine::~Engine() {
  // Lets packets leave that were reported as sent, and tells connected peers about the end, for a moment only.
  constexpr Duration kPatience = std::chrono::milliseconds(200);
  Deaf deaf;
  for (const auto& [id, peer] : peers_.all()) {
    if (peer->state != PeerPhase::kUp || peer->route == nullptr) continue;
    peer->say_bye();
    peer->wire->close_route(*std::exchange(peer->route, nullptr));
  }
  const MonoTime end = clock_.now() + kPatience;
  for (Entry& entry : wires_) {
    while ((entry.wire->packets_in_flight() > 0 || entry.wire->parting()) && clock_.now() < end) entry.wire->poll(deaf);
    quieten(*entry.wire);
  }
  wires_.clear();  // before the peers that own routes, and before the watch over pages
}

Result<void> Engine::start(Sink& sink, const NetworkOptions& options) {
  sink_ = &sink;
  state_.options = &options;
  state_.limits = protocol::limits_of(options, ofi_options_.max_announced);
  state_.limits.max_packet = ofi_options_.packet_bytes;
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !timer_.open() || !wake_) return errno_error(errno, "start of the ofi module");
  for (const int fd : {timer_.descriptor(), wake_.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno_error(errno, "start of the ofi module");
  }
  if (ofi_options_.watch_pages) {
    Result<std::unique_ptr<PageWatch>> watch = PageWatch::start();
    if (watch) {
      pages_ = std::move(*watch);
    } else {
      SPATE_LOG("bmi/ofi", info, "registrations are not kept: the kernel does not tell of unmapped pages error={}",
                watch.error());
    }
  }
  return {};
}

Peer& Engine::add_peer() {
  return peers_.add(
      [this](PeerId id) { return std::make_unique<Peer>(static_cast<PeerHost&>(*this), state_, id, random_.next()); });
}

Result<PeerId> Engine::lookup(std::string_view url, Address address) {
  SPATE_TRY(Target target, parse_url(url));
  if (target.kind == Target::Kind::kAny || target.service == "0") {
    return Error(Errc::kBadAddress, "\"" + std::string(url) + "\" names no single server");
  }
  const std::lock_guard lock(mutex_);
  Peer& peer = add_peer();
  peer.outbound = true;
  peer.address = address;
  peer.url = std::string(url);
  peer.remote = std::move(target);
  random_.fill(peer.link_id);
  return peer.id;
}

PeerState Engine::peer_state(PeerId id) const {
  const std::lock_guard lock(mutex_);
  const Peer* peer = peers_.find(id);
  if (peer == nullptr) return {};
  PeerState state = peer->describe();
  state.same_host = peer->wire != nullptr && peer->wire->on_this_host();
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
  settle();
  state_.outbox.deliver(lock, *sink_);
}

void Engine::admit(PeerId id) {
  std::unique_lock lock(mutex_);
  Peer* peer = peers_.find(id);
  if (peer == nullptr || peer->state != PeerPhase::kUp || !std::exchange(peer->stranger, false)) return;
  strangers_.remove(peer);
  // The same process, before it came back.
  if (Peer* before = peers_.set_inbound(*peer)) lose_peer(*before, Errc::kConnectionLost);
  settle();
  state_.outbox.deliver(lock, *sink_);
}

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
  std::unique_lock lock(mutex_);
  Peer* peer = peers_.find(id);
  if (peer != nullptr && peer->consumed(charge)) peer->turn();
  settle();
  state_.outbox.deliver(lock, *sink_);
}

// --- registration ---

void Engine::look_at_pages() {
  if (pages_ == nullptr) return;
  pages_->take_ended([this](const PageRange& range) {
    for (Entry& entry : wires_) entry.wire->pins().invalidate(range);
  });
}

Result<void> Engine::mem_register(MutableByteView memory) {
  const std::lock_guard lock(mutex_);
  registered_.push_back(memory);
  Result<void> all;
  look_at_pages();
  for (Entry& entry : wires_) {
    if (Result<void> kept = entry.wire->pins().keep(memory); !kept) all = kept;
  }
  return all;
}

void Engine::mem_deregister(MutableByteView memory) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](MutableByteView other) {
    return other.data() == memory.data() && other.size() == memory.size();
  };
  const auto found = std::ranges::find_if(registered_, same);
  if (found == registered_.end()) return;
  registered_.erase(found);
  for (Entry& entry : wires_) entry.wire->pins().drop(memory);
}

OfiCounters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  OfiCounters all = counters_;
  all.dropped_messages = state_.counters.dropped_messages;
  all.aborted = state_.counters.aborted;
  return all;
}

PinCounters Engine::pin_counters() const {
  const std::lock_guard lock(mutex_);
  PinCounters sum;
  for (const Entry& entry : wires_) {
    const PinCounters& one = entry.wire->pins().counters();
    sum.hits += one.hits;
    sum.misses += one.misses;
    sum.evictions += one.evictions;
    sum.merges += one.merges;
    sum.invalidations += one.invalidations;
    sum.refused += one.refused;
    sum.pinned_bytes += one.pinned_bytes;
    sum.unpinned_bytes += one.unpinned_bytes;
  }
  return sum;
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

// --- the end of peers ---

void Engine::settle() {
  while (!state_.lost.empty()) {
    const protocol::Loss loss = state_.lost.back();
    state_.lost.pop_back();
    if (Peer* peer = peers_.find(loss.peer)) lose_peer(*peer, loss.status);
  }
}

void Engine::lose_peer(Peer& peer, Errc status) {
  if (peer.state == PeerPhase::kIdle || peer.state == PeerPhase::kGone) return;
  const bool was_up = peer.state == PeerPhase::kUp;
  if (was_up) ++counters_.connections_lost;
  if (status == Errc::kProtocol) {
    ++counters_.protocol_errors;
    complain(peer.url, "protocol error");
    status = Errc::kConnectionLost;
  }
  if (was_up) {
    peer.say_bye();
  } else if (peer.route != nullptr) {
    peer.route->failed = true;  // a hello that is not out yet shall not leave
  }
  sessions_.erase(peer.local_session);
  strangers_.remove(&peer);
  if (std::exchange(peer.turning, false)) std::erase(turning_, &peer);
  peer.state = peer.outbound ? PeerPhase::kIdle : PeerPhase::kGone;
  peer.process.reset();
  Wire* const wire = peer.wire;
  peer.disconnected(status);
  if (wire != nullptr && wire->parting()) begin_parting();
  if (peer.outbound) return;
  if (std::unique_ptr<Peer> forgotten = peers_.left(peer, ofi_options_.gone_peers_kept)) {
    state_.outbox.forgotten(std::move(forgotten));
  }
}

}  // namespace spate::bmi::ofi
