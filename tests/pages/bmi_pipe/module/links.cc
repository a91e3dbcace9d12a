// SPDX-License-Identifier: Apache-2.0
#include "bmi/pipe/links.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/local_packet.h"

namespace spate::bmi::pipe {
namespace {

using protocol::PeerPhase;
using std::chrono::milliseconds;

constexpr std::size_t kGonePeersKept = 1024;
constexpr int kPacketsInATurn = 16;

}  // namespace

bool Links::open() {
  room_.resize(kHeaderSize + kMaxPayload);
  return events_.open() && timer_.open() && acceptor_.open() &&
         events_.add(timer_.descriptor(), EPOLLIN, &timer_source_);
}

Link* Links::add(UniqueFd socket) {
  used_ = true;
  auto link = std::make_unique<Link>(std::move(socket));
  Link* const raw = link.get();
  if (!events_.add(raw->socket.get(), EPOLLIN, static_cast<Source*>(raw))) return nullptr;
  open_.emplace(raw, std::move(link));
  return raw;
}

void Links::close(Link& link) {
  deadlines_.clear(link);
  state_.unauthenticated_peers.remove(&link);
  events_.remove(link.socket.get());
  link.socket.reset();
  const auto found = open_.find(&link);
  closed_.push_back(std::move(found->second));
  open_.erase(found);
}

void Links::watch_room(Link& link, bool watch) {
  if (std::exchange(link.watches_room, watch) == watch) return;
  (void)events_.change(link.socket.get(), watch ? EPOLLIN | EPOLLOUT : EPOLLIN, static_cast<Source*>(&link));
}

// --- ends ---

void Links::lose_peer(Peer& peer, Errc status) {
  if (peer.state == PeerPhase::kIdle || peer.state == PeerPhase::kGone) return;
  if (status == Errc::kProtocol) {
    state_.peer_log.peer_dropped(peer.link->remote, "protocol error");
    status = Errc::kConnectionLost;
  }
  if (peer.link != nullptr) close(*peer.link);
  peer.state = peer.outbound ? PeerPhase::kIdle : PeerPhase::kGone;
  peer.disconnected(status);
  if (!peer.outbound) state_.left(peer, kGonePeersKept);
}

/// Drops a link that is not open yet, or whose peer is not admitted.
void Links::drop(Link& link, std::string_view why) {
  Peer* const peer = link.peer;
  const bool connecting = peer != nullptr && peer->state == PeerPhase::kConnecting;
  if (connecting) peer->failure = why;
  if (!connecting) state_.peer_log.unauthenticated_dropped(link.remote, why);
  if (peer == nullptr) return close(link);
  lose_peer(*peer, connecting ? Errc::kUnreachable : Errc::kConnectionLost);
}

// --- the connector's side ---

void Links::connect(Peer& peer) {
  peer.state = PeerPhase::kConnecting;
  peer.attempted = true;
  Result<UniqueFd> socket = connect_to(peer.remote);
  if (!socket) peer.failure = socket.error().message();
  // Any user can bind a name.
  const bool trusted = socket && is_trusted(socket->get());
  if (socket && !trusted) peer.failure = "the process that listens there belongs to another user";
  peer.link = trusted ? add(std::move(*socket)) : nullptr;
  if (peer.link == nullptr) return state_.lose_later(peer, Errc::kUnreachable);
  peer.link->peer = &peer;
  peer.link->remote = peer.url;
  const Bytes hello = encode(Hello{peer.link_id, peer.receiver().grant()});
  if (send_local_packet(peer.link->socket.get(), hello, {}) != 0) return state_.lose_later(peer, Errc::kUnreachable);
  deadlines_.set(*peer.link, state_.clock.now() + milliseconds(state_.options->connect_timeout_ms));
}

// --- the acceptor's side ---

Result<std::string> Links::listen(std::string_view url, ContextId context) {
  SPATE_TRY(const Endpoint wanted, parse_url(url));
  const Endpoint endpoint = named(wanted, state_.random);
  auto listener = std::make_unique<Listener>();
  SPATE_TRY(listener->socket, listen_on(endpoint));
  listener->context = context;
  listener->url = url_of(endpoint);
  if (!events_.add(listener->socket.get(), EPOLLIN, static_cast<Source*>(listener.get())))
    return errno_error(errno, "listen on " + listener->url);
  used_ = true;
  listeners_.push_back(std::move(listener));
  return listeners_.back()->url;
}

void Links::accept_from(Listener& listener) {
  const auto take = [&](UniqueFd socket) { accepted(std::move(socket), listener); };
  if (!acceptor_.accept(listener.socket.get(), take)) state_.peer_log.out_of_descriptors();
}

void Links::accepted(UniqueFd socket, const Listener& listener) {
  if (!is_trusted(socket.get()))
    return state_.peer_log.unauthenticated_dropped(listener.url, "it belongs to another user");
  Link* const link = add(std::move(socket));
  if (link == nullptr) return state_.peer_log.out_of_descriptors();
  link->remote = listener.url;
  link->context = listener.context;
  link->accepted_at = state_.clock.now();
  const UnauthenticatedPeerLimits& limits = state_.options->unauthenticated;
  std::uint32_t timeout_ms = state_.options->connect_timeout_ms;
  if (limits.apply()) timeout_ms = std::min(timeout_ms, limits.deadline_ms);
  deadlines_.set(*link, link->accepted_at + milliseconds(timeout_ms));
  const auto victim = state_.unauthenticated_peers.add(link, "this user", limits, state_.random);
  if (victim) drop(**victim, "too many unauthenticated peers");
}

void Links::on_hello(Link& link, const Hello& hello) {
  Peer& peer =
      state_.options->unauthenticated.apply() ? unauthenticated_peer(link, hello) : returning_peer(link, hello);
  peer.url = link.remote;
  peer.state = PeerPhase::kUp;
  peer.link = &link;
  link.peer = &peer;
  const Bytes answer = encode(Hello{hello.link, peer.receiver().grant()});
  if (send_local_packet(link.socket.get(), answer, {}) != 0) return state_.lose_later(peer, Errc::kConnectionLost);
  peer.connected(hello.limits);
}

Peer& Links::unauthenticated_peer(Link& link, const Hello& hello) {
  Peer& peer = state_.unauthenticated_peer(hello.link, link.context);
  deadlines_.set(link, link.accepted_at + milliseconds(state_.options->unauthenticated.deadline_ms));
  return peer;
}

Peer& Links::returning_peer(Link& link, const Hello& hello) {
  state_.unauthenticated_peers.remove(&link);
  deadlines_.clear(link);
  return state_.returning_peer(hello.link, link.context, *this);
}

void Links::admitted(Peer& peer) {
  state_.unauthenticated_peers.remove(peer.link);
  deadlines_.clear(*peer.link);
  state_.admitted(peer, *this);
}

// --- turns ---

bool Links::poll() {
  closed_.clear();
  std::array<epoll_event, 64> room;  // filled by the kernel as far as there are any
  const std::span<const epoll_event> events = events_.look(room);
  for (const epoll_event& event : events) {
    auto* const source = static_cast<Source*>(event.data.ptr);
    switch (source->kind) {
      case Source::Kind::kLink: read(static_cast<Link&>(*source)); break;
      case Source::Kind::kListener: accept_from(static_cast<Listener&>(*source)); break;
      case Source::Kind::kTimer: expire(); break;
    }
    state_.take_losses([this](Peer& peer, Errc status) { lose_peer(peer, status); });
  }
  return !events.empty();
}

/// Reads some packets, and sends what they caused and what waited for room.
void Links::read(Link& link) {
  for (int i = 0; i < kPacketsInATurn && link.socket; ++i) {
    LocalPacket packet;
    const int failed = receive_local_packet(link.socket.get(), room_, packet, false);
    if (failed == EAGAIN) break;
    const bool ended = failed != 0 || packet.size == 0;
    if (!ended && !packet.cut && on_packet(link, ByteView(room_).first(packet.size))) continue;
    const bool open = link.peer != nullptr && link.peer->state == PeerPhase::kUp;
    if (!open) return drop(link, ended ? "it closed the connection" : "it is no spate process");
    return state_.lose_later(*link.peer, ended ? Errc::kConnectionLost : Errc::kProtocol);
  }
  if (link.peer != nullptr && link.peer->state == PeerPhase::kUp) link.peer->flush_all();
}

bool Links::on_packet(Link& link, ByteView packet) {
  if (link.peer != nullptr && link.peer->state == PeerPhase::kUp) return link.peer->on_packet(packet);
  const std::optional<Hello> hello = decode_hello(packet);
  if (!hello) return false;
  if (link.peer == nullptr) {
    on_hello(link, *hello);
  } else {
    deadlines_.clear(link);
    link.peer->connected(hello->limits);
  }
  return true;
}

void Links::expire() {
  timer_.drain();
  const MonoTime now = state_.clock.now();
  while (Link* link = deadlines_.take_due(now)) drop(*link, "it did not answer or authenticate in time");
  timer_.arm(deadlines_.first());
}

}  // namespace spate::bmi::pipe
