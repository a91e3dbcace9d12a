// SPDX-License-Identifier: Apache-2.0
// Listening, connecting, and the handshake of both sides.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "bmi/ofi/engine.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::ofi {

WireOptions Engine::wire_options(const Target& target) const {
  WireOptions options;
  options.provider = target.provider;
  options.node = target.node;
  options.service = target.service;
  options.packet_bytes = ofi_options_.packet_bytes;
  options.receive_packets = ofi_options_.receive_packets;
  options.pins.page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  options.pins.max_bytes = ofi_options_.max_pinned_bytes;
  return options;
}

Result<Engine::Entry*> Engine::add_wire(const WireOptions& options, std::string suffix) {
  SPATE_TRY(std::unique_ptr<Wire> wire, Wire::open(options, pages_.get()));
  Entry& entry = wires_.emplace_back(*this);
  entry.wire = std::move(wire);
  entry.suffix = std::move(suffix);
  if (Result<void> watched = watch_wire(entry); !watched) {
    wires_.pop_back();
    return watched.error();
  }
  // Memory that cannot be registered moves like any other memory.
  for (const MutableByteView memory : registered_) (void)entry.wire->pins().keep(memory).has_value();
  wake();
  return &entry;
}

Result<void> Engine::watch_wire(Entry& entry) {
  entry.watched_fd = entry.wire->wait_descriptor();
  if (entry.watched_fd < 0) return {};
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, entry.watched_fd, &event) == 0) return {};
  entry.watched_fd = -1;
  return errno_error(errno, "epoll_ctl");
}

Result<std::string> Engine::listen(std::string_view url, ContextId context) {
  SPATE_TRY(Target target, parse_url(url));
  if (target.kind == Target::Kind::kRaw) {
    return Error(Errc::kBadAddress, "\"" + std::string(url) + "\": nobody can choose such an address; listen at ofi+" +
                                        target.suffix + "://*");
  }
  WireOptions options = wire_options(target);
  options.bind = target.kind != Target::Kind::kAny;
  if (options.service == "0") options.service.clear();
  const std::lock_guard lock(mutex_);
  SPATE_TRY(Entry * entry, add_wire(options, target.suffix));
  entry->listens = true;
  entry->context = context;
  return url_of(target.suffix, entry->wire->text_of(entry->wire->name()), entry->wire->name());
}

// --- the connecting side ---

Result<Engine::Entry*> Engine::outbound_wire(const Target& target) {
  const std::string key = target.provider + " " + target.node;
  const auto known = outbound_.find(key);
  if (known != outbound_.end()) return known->second;
  WireOptions options = wire_options(target);
  SPATE_TRY(const std::string device, Wire::device_for(options));
  Entry* found = nullptr;
  for (Entry& entry : wires_) {
    if (!entry.listens && entry.wire->provider() == target.provider && entry.wire->device() == device) found = &entry;
  }
  if (found == nullptr) {
    if (target.kind == Target::Kind::kName) options.node.clear();
    SPATE_TRY(found, add_wire(options, target.suffix));
  }
  outbound_.emplace(key, found);
  return found;
}

void Engine::connect(Peer& peer) {
  SPATE_CHECK(peer.outbound && peer.state == PeerPhase::kIdle);
  peer.state = PeerPhase::kConnecting;
  peer.attempted = true;
  peer.on_new_endpoint = false;
  const Result<void> begun = begin_session(peer);
  // From here on: libfabric takes a second of processor time to begin with, which a busy machine makes many.
  peer.give_up = clock_.now() + std::chrono::milliseconds(state_.options->connect_timeout_ms);
  next_sweep_ = MonoTime();
  if (!begun) attempt_failed(peer, begun.error().message());
}

Result<void> Engine::begin_session(Peer& peer) {
  SPATE_TRY(Entry * entry, outbound_wire(peer.remote));
  peer.wire = entry->wire.get();
  peer.route = peer.wire->open_route(fabric_address(peer.remote), &peer);
  if (peer.route == nullptr) return Error(Errc::kUnreachable, "nobody listens there");
  open_session(peer);
  return say_hello(peer);
}

Result<void> Engine::say_hello(Peer& peer) {
  constexpr Duration kAgain = std::chrono::milliseconds(100);
  peer.hello_again = clock_.now() + kAgain;
  if (peer.route->refused != nullptr) return {};  // the last one is not out yet
  peer.route->failed = false;
  Hello hello;
  hello.pid = static_cast<std::uint32_t>(::getpid());
  hello.link = peer.link_id;
  hello.session = peer.local_session;
  hello.limits = peer.grant_limits();
  hello.address = peer.wire->name();
  PacketHeader header;
  header.type = kHello;
  if (!send_alone(peer, header, encode(hello))) return Error(Errc::kNoMemory, "out of packet buffers");
  return {};
}

void Engine::open_session(Peer& peer) {
  peer.local_session = random_.next() | 1U;
  sessions_[peer.local_session] = &peer;
  peer.heard = clock_.now();
  peer.pings = 0;
  peer.doomed = false;
  peer.stuck_since = MonoTime::never();
  next_sweep_ = MonoTime();
}

bool Engine::send_alone(Peer& peer, const PacketHeader& header, const Bytes& payload) {
  PacketBuffer* buffer = peer.wire->take_buffer();
  if (buffer == nullptr) return false;
  std::byte* const data = Wire::data_of(*buffer);
  encode(header, payload.size(), data);
  std::ranges::copy(payload, data + kHeaderSize);
  ++counters_.packets_sent;
  if (!peer.wire->send(*peer.route, *buffer, kHeaderSize + payload.size())) keep_turning(peer);
  return true;
}

void Engine::on_welcome(Peer& peer, ByteView payload) {
  const std::optional<Welcome> welcome = decode_welcome(payload);
  if (peer.state == PeerPhase::kUp && welcome && welcome->session == peer.remote_session) return;  // said twice
  if (peer.state != PeerPhase::kConnecting) return state_.lose_later(peer, Errc::kProtocol);
  if (!welcome) return attempt_failed(peer, "whoever listens there is no spate server");
  if (welcome->status != Errc::kOk) {
    return attempt_failed(peer, "refused by the server: " + std::string(describe(welcome->status)));
  }
  peer.remote_session = welcome->session;
  peer.process = watch_process(*peer.wire, welcome->pid);
  peer.connected(welcome->limits);
}

void Engine::attempt_failed(Peer& peer, std::string why) {
  // The peer may have another URL that works, so this is no warning.
  SPATE_LOG("bmi/ofi", debug, "not connected url={} reason={}", peer.url, log::Quoted{why});
  peer.failure = std::move(why);
  state_.lose_later(peer, Errc::kUnreachable);
}

/// Only for the shm provider, whose peers are processes of this host. Nothing else tells of their sudden end.
UniqueFd Engine::watch_process(const Wire& wire, std::uint32_t pid) {
  if (!wire.on_this_host() || pid == 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

// --- the accepting side ---

void Engine::on_hello(Entry& entry, ByteView payload) {
  const std::optional<Hello> hello = decode_hello(payload);
  if (!hello || !entry.listens) {
    ++counters_.protocol_errors;
    return;
  }
  if (hello->version_min > kVersionMax || hello->version_max < kVersionMin) {
    complain("a caller", "speaks versions " + std::to_string(hello->version_min) + " to " +
                             std::to_string(hello->version_max) + " of the ofi module's protocol, this side " +
                             std::to_string(kVersionMin) + " to " + std::to_string(kVersionMax) +
                             ": upgrade the older one");
    return refuse(entry, *hello, Errc::kVersionMismatch);
  }
  Peer* peer = state_.options->strangers.apply() ? stranger(entry, *hello) : returning_peer(entry, *hello);
  if (peer != nullptr) welcome_peer(entry, *peer, *hello);
}

/// Whether the hello is one of a session that stands: said twice, since the answer may have gone the way of an older
/// connection. Then it is answered again.
bool Engine::said_before(Peer& peer, const Hello& hello) {
  if (peer.state != PeerPhase::kUp || peer.link_id != hello.link || peer.remote_session != hello.session) return false;
  if (!peer.answered) say_welcome(peer, hello.session);
  return true;
}

/// A separate peer until it is admitted, so that a process that has overheard a link's id cannot replace another peer.
Peer* Engine::stranger(Entry& entry, const Hello& hello) {
  Peer* const known = peers_.inbound(hello.link);
  if (known != nullptr && said_before(*known, hello)) return nullptr;
  if (strangers_.find_if([&](Peer* peer) { return said_before(*peer, hello); })) return nullptr;
  if (sessions_.size() >= ofi_options_.inbound_limit) {
    complain("a caller", "too many peers");
    refuse(entry, hello, Errc::kBusy);
    return nullptr;
  }
  Peer& peer = add_peer();
  peer.stranger = true;
  peer.admit_by = clock_.now() + std::chrono::milliseconds(state_.options->strangers.deadline_ms);
  peer.link_id = hello.link;
  peer.context = entry.context;
  state_.outbox.inbound(peer);
  // As it says itself where it is; the answer has to reach it there. Without its port.
  const std::string address = entry.wire->text_of(hello.address);
  const auto victim = strangers_.add(&peer, address.substr(0, address.rfind(':')), state_.options->strangers, random_);
  if (victim) {
    note_stranger_dropped(**victim, "too many strangers");
    lose_peer(**victim, Errc::kConnectionLost);
  }
  return &peer;
}

void Engine::note_stranger_dropped(const Peer& peer, std::string_view why) {
  ++counters_.strangers_dropped;
  if (const auto more = strangers_log_.admit()) {
    SPATE_LOG("bmi/ofi", warn, "stranger dropped: {} peer={}{}", why, peer.url, *more);
  }
}

Peer* Engine::returning_peer(Entry& entry, const Hello& hello) {
  if (Peer* known = peers_.inbound(hello.link)) {
    Peer& peer = *known;
    if (said_before(peer, hello)) return nullptr;
    // Reads of its last session are still in flight on another endpoint: it may try again.
    if (peer.wire != entry.wire.get() && peer.grace_of_reads() != MonoTime::never()) return nullptr;
    lose_peer(peer, Errc::kConnectionLost);  // it has a new session, so the old one is dead
    peers_.came_back(peer);
    return &peer;
  }
  if (peers_.inbound_connected() >= ofi_options_.inbound_limit) {
    complain("a caller", "too many peers");
    refuse(entry, hello, Errc::kBusy);
    return nullptr;
  }
  Peer& peer = add_peer();
  peer.link_id = hello.link;
  peer.context = entry.context;
  peers_.set_inbound(peer);
  state_.outbox.inbound(peer);
  return &peer;
}

void Engine::refuse(Entry& entry, const Hello& hello, Errc status) {
  ++counters_.refused;
  Peer stranger(static_cast<PeerHost&>(*this), state_, PeerId(), 0);
  Route* route = entry.wire->open_route(hello.address, &stranger);
  if (route == nullptr) return;
  PacketHeader header;
  header.type = kWelcome;
  header.session = hello.session;
  Welcome welcome;
  welcome.status = status;
  if (PacketBuffer* buffer = entry.wire->take_buffer()) {
    const Bytes payload = encode(welcome);
    encode(header, payload.size(), Wire::data_of(*buffer));
    std::ranges::copy(payload, Wire::data_of(*buffer) + kHeaderSize);
    // Not heard, it finds out by its timeout.
    route->failed = !entry.wire->send(*route, *buffer, kHeaderSize + payload.size());
  }
  entry.wire->close_route(*route);
}

void Engine::welcome_peer(Entry& entry, Peer& peer, const Hello& hello) {
  peer.wire = entry.wire.get();
  peer.route = peer.wire->open_route(hello.address, &peer);
  peer.url = url_of(entry.suffix, peer.wire->text_of(hello.address), hello.address);
  peer.state = PeerPhase::kUp;  // so that it is taken down like any other, whatever happens next
  open_session(peer);
  if (peer.route == nullptr) {
    ++counters_.refused;
    return state_.lose_later(peer, Errc::kConnectionLost);
  }
  peer.remote_session = hello.session;
  peer.process = watch_process(*peer.wire, hello.pid);
  peer.granted = peer.grant_limits();
  peer.answered = false;
  if (!say_welcome(peer, hello.session)) return state_.lose_later(peer, Errc::kConnectionLost);
  peer.connected(hello.limits);
}

bool Engine::say_welcome(Peer& peer, std::uint64_t session) {
  if (peer.route->refused != nullptr) return true;  // the last one is not out yet
  Welcome welcome;
  welcome.pid = static_cast<std::uint32_t>(::getpid());
  welcome.session = peer.local_session;
  welcome.limits = peer.granted;
  PacketHeader header;
  header.type = kWelcome;
  header.session = session;
  return send_alone(peer, header, encode(welcome));
}

}  // namespace spate::bmi::ofi
