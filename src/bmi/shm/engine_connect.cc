// SPDX-License-Identifier: Apache-2.0
// Listening, connecting, and the handshake of both sides.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "bmi/shm/engine.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::shm {
namespace {

constexpr std::uint32_t kSocketEvents = EPOLLIN | EPOLLRDHUP;
constexpr std::uint32_t kBellEvents = EPOLLIN | EPOLLET;
constexpr Duration kConnectAgain = std::chrono::milliseconds(2);

std::uint64_t inode_of(const std::string& path) {
  struct stat st{};
  return ::lstat(path.c_str(), &st) == 0 ? static_cast<std::uint64_t>(st.st_ino) : 0;
}

}  // namespace

Engine::Listener::~Listener() {
  if (!path.empty() && inode_of(path) == inode) ::unlink(path.c_str());
}

Result<std::string> Engine::listen(std::string_view url, ContextId context) {
  SPATE_TRY(const Endpoint wanted, parse_url(url));
  const std::lock_guard lock(mutex_);
  const Endpoint endpoint = named(wanted, random_);
  auto listener = std::make_unique<Listener>();
  SPATE_TRY(listener->socket, listen_on(endpoint, shm_options_.policy.kind != AccessPolicy::Kind::kSameUser));
  listener->context = context;
  listener->url = url_of(endpoint);
  if (!endpoint.abstract) {
    listener->inode = inode_of(endpoint.name);
    listener->path = endpoint.name;
  }
  if (!watch(listener->socket.get(), EPOLLIN, *listener)) return errno_error(errno, "listen on " + std::string(url));
  listeners_.push_back(std::move(listener));
  return url_of(endpoint);
}

Link* Engine::add_link(UniqueFd socket, Side side) {
  auto link = std::make_unique<Link>(std::move(socket), side);
  Link* raw = link.get();
  links_.emplace(raw, std::move(link));
  return raw;
}

void Engine::close_link(Link* link) {
  if (link == nullptr || link->closed) return;
  link->closed = true;
  deadlines_.clear(*link);
  strangers_.remove(link);
  deactivate(*link);
  // A closed descriptor stays in the epoll set as long as anybody has it open, and the peer has the bell.
  epoll_event unused{};
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->socket(), &unused);
  if (link->peer == nullptr || !link->connecting)
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->own_bell(), &unused);
  link->close();
  const auto found = links_.find(link);
  graveyard_.push_back(std::move(found->second));
  links_.erase(found);
}

// --- the accepting side ---

void Engine::accept_from(Listener& listener) {
  const auto take = [&](UniqueFd socket) { accepted(std::move(socket), listener); };
  if (acceptor_.accept(listener.socket.get(), take)) return;
  ++counters_.refused;
  if (const auto more = complaints_.admit()) {
    SPATE_LOG("bmi/shm", error, "connection refused: out of file descriptors (raise ulimit -n){}", *more);
  }
}

void Engine::accepted(UniqueFd socket, Listener& listener) {
  const Result<Credentials> credentials = peer_of(socket.get());
  if (!credentials) return;
  Link* link = add_link(std::move(socket), Side::kAcceptor);
  link->credentials = *credentials;
  link->trusted = credentials->uid == own_uid_ || credentials->uid == 0;
  link->remote = listener.url + "#" + std::to_string(credentials->pid);
  link->reached = reached_url(link->socket(), false);
  link->context = listener.context;
  link->accepted_at = clock_.now();
  if (!watch(link->socket(), kSocketEvents, link->socket_event)) {
    ++counters_.refused;
    complain(link->remote, errno_error(errno, "epoll_ctl (raise fs.epoll.max_user_watches)").message());
    return close_link(link);
  }
  std::uint32_t patience_ms = state_.options->connect_timeout_ms;
  if (state_.options->strangers.apply()) patience_ms = std::min(patience_ms, state_.options->strangers.deadline_ms);
  deadlines_.set(*link, link->accepted_at + std::chrono::milliseconds(patience_ms));
  const std::string source = "uid " + std::to_string(credentials->uid);
  const auto victim = strangers_.add(link, source, state_.options->strangers, random_);
  if (victim) drop_stranger(**victim, "too many strangers");
}

/// `link`: accepted, and its peer, if it has one, not admitted.
void Engine::drop_stranger(Link& link, std::string_view why) {
  ++counters_.strangers_dropped;
  if (const auto more = strangers_log_.admit()) {
    SPATE_LOG("bmi/shm", warn, "stranger dropped: {} peer={}{}", why, link.remote, *more);
  }
  if (link.peer != nullptr) return lose_peer(*link.peer, Errc::kConnectionLost);
  ++counters_.refused;
  close_link(&link);
}

void Engine::on_hello(Link& link) {
  Packet packet;
  receive_packet(link.socket(), packet);
  if (packet.status == Packet::Status::kNothing) return;
  Hello hello;
  Welcome welcome;
  if (packet.status == Packet::Status::kPacket && lets_in(link, packet, welcome, hello) &&
      welcome_peer(link, hello, welcome, std::move(packet.descriptors[0]))) {
    return;
  }
  ++counters_.refused;
  if (link.peer == nullptr) close_link(&link);
}

bool Engine::lets_in(Link& link, const Packet& packet, Welcome& welcome, Hello& hello) {
  const std::optional<Hello> said = decode_hello(packet.view());
  if (!said) {
    ++counters_.protocol_errors;
    complain(link.remote, "not a hello");
    return false;
  }
  hello = *said;
  welcome.policy = shm_options_.policy.kind;
  welcome.geometry = shm_options_.geometry;
  if (hello.version_min > kVersionMax || hello.version_max < kVersionMin) {
    welcome.status = Errc::kVersionMismatch;
    refuse(link, welcome, "it speaks no version of ours");
    return false;
  }
  if (!shm_options_.policy.admits(link.credentials.uid, own_uid_)) {
    welcome.status = Errc::kPermissionDenied;
    refuse(link, welcome,
           "user " + std::to_string(link.credentials.uid) + " is not let in: this server " +
               describe(welcome.policy, own_uid_));
    return false;
  }
  if (packet.descriptor_count == 1) return true;
  ++counters_.protocol_errors;
  complain(link.remote, "a hello without a bell");
  return false;
}

void Engine::refuse(Link& link, const Welcome& welcome, std::string_view why) {
  complain(link.remote, why);
  (void)send_packet(link.socket(), encode(welcome), {});
}

/// A separate peer until it is admitted, so that a process that has learnt a link's id cannot replace another peer.
Peer& Engine::stranger(Link& link, const Hello& hello) {
  Peer& peer = add_peer();
  peer.stranger = true;
  peer.link_id = hello.link;
  peer.context = link.context;
  state_.outbox.inbound(peer);
  deadlines_.set(link, link.accepted_at + std::chrono::milliseconds(state_.options->strangers.deadline_ms));
  return peer;
}

Peer& Engine::returning_peer(Link& link, const Hello& hello) {
  strangers_.remove(&link);
  deadlines_.clear(link);
  if (Peer* known = peers_.inbound(hello.link)) {
    lose_peer(*known, Errc::kConnectionLost);  // it has a new link, so the old one is dead
    peers_.came_back(*known);
    return *known;
  }
  Peer& peer = add_peer();
  peer.link_id = hello.link;
  peer.context = link.context;
  peers_.set_inbound(peer);
  state_.outbox.inbound(peer);
  return peer;
}

bool Engine::welcome_peer(Link& link, const Hello& hello, Welcome welcome, UniqueFd bell) {
  const bool strange = state_.options->strangers.apply();
  welcome.version = std::min(hello.version_max, kVersionMax);
  if (strange && welcome.version < kVersionOfNarrowLanes) welcome.geometry = kNarrow;  // for as long as it stays
  Result<UniqueFd> segment = link.make_segment(welcome.geometry, welcome.version);
  const bool watched = segment && link.own_bell() >= 0 && watch(link.own_bell(), kBellEvents, link.bell_event);
  if (!watched) {
    welcome.status = Errc::kNoMemory;
    refuse(link, welcome, segment ? "out of file descriptors (raise ulimit -n)" : segment.error().message());
    return false;
  }
  link.set_remote_bell(std::move(bell));
  Peer* const peer = &(strange ? stranger(link, hello) : returning_peer(link, hello));
  peer->url = link.remote;
  link.peer = peer;
  peer->link = &link;  // so that it is closed with the peer, whatever happens next
  peer->state = PeerPhase::kUp;
  welcome.limits = peer->grant_limits();
  const std::array<int, 2> passed{segment->get(), link.own_bell()};
  if (send_packet(link.socket(), encode(welcome), passed) != 0) {
    state_.lose_later(*peer, Errc::kConnectionLost);
    return true;
  }
  peer->connected(link, hello.limits);
  if (!strange) peer->widen();
  activate(link);
  return true;
}

// --- the connecting side ---

void Engine::connect(Peer& peer) {
  SPATE_CHECK(peer.outbound && peer.state == PeerPhase::kIdle);
  peer.state = PeerPhase::kConnecting;
  peer.attempted = true;
  Result<UniqueFd> socket = make_socket();
  if (!socket) return attempt_failed(peer, socket.error().message());
  Link* link = add_link(std::move(*socket), Side::kConnector);
  peer.link = link;
  link->peer = &peer;
  link->remote = peer.url;
  link->connecting = true;
  link->give_up = clock_.now() + std::chrono::milliseconds(state_.options->connect_timeout_ms);
  try_connect(*link);
}

void Engine::try_connect(Link& link) {
  Peer& peer = *link.peer;
  const int failed = connect_to(link.socket(), peer.remote);
  if (failed == EAGAIN) return deadlines_.set(link, std::min(link.give_up, clock_.now() + kConnectAgain));
  if (failed != 0) {
    const std::string why = failed == ENOENT || failed == ECONNREFUSED
                                ? std::string("no server listens there on this host")
                                : errno_error(failed, "connect").message();
    return attempt_failed(peer, why);
  }
  const Result<Credentials> credentials = peer_of(link.socket());
  if (credentials) link.credentials = *credentials;
  link.trusted = credentials && (credentials->uid == own_uid_ || credentials->uid == 0);
  if (!credentials || link.own_bell() < 0) return attempt_failed(peer, "out of file descriptors (raise ulimit -n)");
  // Anybody may bind a name, so the kernel is asked which user did before anything is sent.
  if (!shm_options_.servers.admits(credentials->uid, own_uid_)) {
    const std::string why = "held by uid " + std::to_string(credentials->uid) +
                            ", not by a server's user; skipped (network.shm_server_users)";
    ++counters_.refused;
    complain(link.remote, why);
    return attempt_failed(peer, why);
  }
  link.reached = reached_url(link.socket(), true);
  const bool watched =
      watch(link.socket(), kSocketEvents, link.socket_event) && watch(link.own_bell(), kBellEvents, link.bell_event);
  if (!watched) return attempt_failed(peer, errno_error(errno, "epoll_ctl").message());
  link.connecting = false;
  if (!say_hello(link)) return attempt_failed(peer, "the server closed the connection");
  deadlines_.set(link, link.give_up);
}

bool Engine::say_hello(Link& link) {
  Hello hello;
  hello.link = link.peer->link_id;
  hello.limits = link.peer->grant_limits();
  const int bell = link.own_bell();
  return send_packet(link.socket(), encode(hello), std::span(&bell, 1)) == 0;
}

void Engine::on_welcome(Link& link) {
  Packet packet;
  receive_packet(link.socket(), packet);
  if (packet.status == Packet::Status::kNothing) return;
  Peer& peer = *link.peer;
  if (packet.status == Packet::Status::kClosed) return attempt_failed(peer, "the server closed the connection");
  Limits limits;
  const Result<void> accepted = accept_welcome(link, packet, limits);
  if (!accepted) return attempt_failed(peer, accepted.error().message());
  deadlines_.clear(link);
  peer.connected(link, limits);
  activate(link);
}

Result<void> Engine::accept_welcome(Link& link, Packet& packet, Limits& limits) {
  const std::optional<Welcome> welcome = decode_welcome(packet.view());
  if (!welcome) return Error(Errc::kProtocol, "whoever listens there is no spate server");
  if (welcome->status == Errc::kPermissionDenied) {
    return Error(welcome->status, "the server " + describe(welcome->policy, link.credentials.uid) +
                                      "; this process is uid " + std::to_string(own_uid_) + " (network.shm_users)");
  }
  if (welcome->status != Errc::kOk) return Error(welcome->status, "refused by the server");
  if (packet.descriptor_count != 2)
    return Error(Errc::kProtocol, "a welcome without shared memory (out of descriptors?)");
  SPATE_TRY(std::ignore, link.map_segment(welcome->geometry, packet.descriptors[0].get(), welcome->version));
  link.set_remote_bell(std::move(packet.descriptors[1]));
  limits = welcome->limits;
  return {};
}

void Engine::attempt_failed(Peer& peer, std::string why) {
  // The peer may have another URL that works, so this is no warning.
  SPATE_LOG("bmi/shm", debug, "not connected url={} reason={}", peer.url, log::Quoted{why});
  peer.failure = std::move(why);
  state_.lose_later(peer, Errc::kUnreachable);
}

}  // namespace spate::bmi::shm
