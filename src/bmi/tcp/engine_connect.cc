// SPDX-License-Identifier: Apache-2.0
// Listening, connecting, and the handshake of both sides.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "bmi/tcp/engine.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::tcp {
namespace {

/// Sends a part of a handshake. So little was sent before it that it fits into the socket: else the caller drops the
/// connection.
bool send_whole(int socket, ByteView bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

std::string connect_failure(int error_number) {
  if (error_number == ECONNREFUSED) return "nobody listens there";
  return std::generic_category().message(error_number);
}

}  // namespace

Result<std::string> Engine::listen(std::string_view url, ContextId context) {
  SPATE_TRY(const Endpoint endpoint, parse_url(url));
  SPATE_TRY(UniqueFd socket, listen_on(endpoint));
  std::string advertised = advertised_url(endpoint, socket.get());
  const std::lock_guard lock(mutex_);
  auto listener = std::make_unique<Listener>();
  listener->socket = std::move(socket);
  listener->context = context;
  if (!watch(listener->socket.get(), EPOLLIN, *listener)) return errno_error(errno, "listen on " + std::string(url));
  listeners_.push_back(std::move(listener));
  return advertised;
}

/// Null, with errno: the connection is closed again.
Connection* Engine::add_connection(UniqueFd socket, FrameHandler& handler, bool bulk) {
  set_connection_options(socket.get(), bulk ? tcp_options_.notsent_lowat_bytes : 0);
  auto connection = std::make_unique<Connection>(std::move(socket), handler);
  Connection* raw = connection.get();
  if (!watch(raw->socket(), kConnectionEvents, *raw)) return nullptr;
  connections_.emplace(raw, std::move(connection));
  return raw;
}

void Engine::close_connection(Connection* connection) {
  if (connection == nullptr || connection->closed) return;
  connection->closed = true;
  connection->close();
  deadlines_.clear(*connection);
  half_open_.erase(connection);
  strangers_.remove(connection);
  if (hot_ == connection) hot_ = nullptr;
  if (connection->due) std::erase(due_, connection);
  const auto found = connections_.find(connection);
  graveyard_.push_back(std::move(found->second));
  connections_.erase(found);
}

// --- the accepting side ---

void Engine::accept_from(Listener& listener) {
  const auto take = [&](UniqueFd socket) { accepted(std::move(socket), listener); };
  if (acceptor_.accept(listener.socket.get(), take)) return;
  ++counters_.refused;
  if (const auto more = complaints_.admit()) {
    SPATE_LOG("bmi/tcp", error, "connection refused: out of file descriptors (raise ulimit -n){}", *more);
  }
}

void Engine::accepted(UniqueFd socket, Listener& listener) {
  const SocketAddress remote = remote_address(socket.get());
  const std::string name = "tcp://" + remote.text();
  Connection* connection = add_connection(std::move(socket), hello_handler_, false);
  if (connection == nullptr) {
    ++counters_.refused;
    return complain(name, errno_error(errno, "epoll_ctl (raise fs.epoll.max_user_watches)").message());
  }
  connection->remote = name;
  connection->accepted_at = clock_.now();
  half_open_.emplace(connection, listener.context);
  std::uint32_t patience_ms = state_.options->connect_timeout_ms;
  if (state_.options->strangers.apply()) patience_ms = std::min(patience_ms, state_.options->strangers.deadline_ms);
  set_deadline(*connection, std::chrono::milliseconds(patience_ms));
  const auto victim = strangers_.add(connection, remote.source(), state_.options->strangers, random_);
  if (victim) drop_stranger(**victim, "too many strangers");
}

/// `connection`: accepted, and its peer, if it has one, not admitted.
void Engine::drop_stranger(Connection& connection, std::string_view why) {
  ++counters_.strangers_dropped;
  if (const auto more = strangers_log_.admit()) {
    SPATE_LOG("bmi/tcp", warn, "stranger dropped: {} peer={}{}", why, connection.remote, *more);
  }
  if (connection.peer != nullptr) return lose_peer(*connection.peer, Errc::kConnectionLost);
  ++counters_.refused;
  close_connection(&connection);
}

bool Engine::say_welcome(Connection& connection, const Welcome& welcome) {
  return send_whole(connection.socket(), encode(welcome));
}

/// Tells a proper process why it is not let in. Always true: it has kept to the protocol.
bool Engine::refuse(Connection& connection, const Welcome& welcome) {
  say_welcome(connection, welcome);
  ++counters_.refused;
  close_connection(&connection);
  return true;
}

bool Engine::on_hello(Connection& connection, const std::byte* bytes) {
  const std::optional<Hello> hello = decode_hello(bytes);
  if (!hello) return false;
  if (hello->version_min > kVersionMax || hello->version_max < kVersionMin) {
    complain(connection.remote, "speaks versions " + std::to_string(hello->version_min) + " to " +
                                    std::to_string(hello->version_max) + " of the tcp module's protocol, this side " +
                                    std::to_string(kVersionMin) + " to " + std::to_string(kVersionMax) +
                                    ": upgrade the older one");
    return refuse(connection, Welcome{Errc::kVersionMismatch, kVersionMax, 0, {}});
  }
  return hello->channel == 0 ? accept_control(connection, *hello) : accept_bulk(connection, *hello, bytes);
}

/// A separate peer until it is admitted, so that a process that has overheard a link's id cannot replace another peer.
Peer& Engine::stranger(Connection& connection, const Hello& hello) {
  Peer& peer = add_peer();
  peer.stranger = true;
  peer.link_id = hello.link;
  peer.context = half_open_.at(&connection);
  state_.outbox.inbound(peer);
  set_deadline(connection, connection.accepted_at + std::chrono::milliseconds(state_.options->strangers.deadline_ms) -
                               clock_.now());
  return peer;
}

Peer& Engine::returning_peer(Connection& connection, const Hello& hello) {
  strangers_.remove(&connection);
  deadlines_.clear(connection);
  if (Peer* known = peers_.inbound(hello.link)) {
    lose_peer(*known, Errc::kConnectionLost);  // it has a new connection, so the old ones are dead
    peers_.came_back(*known);
    return *known;
  }
  Peer& peer = add_peer();
  peer.link_id = hello.link;
  peer.context = half_open_.at(&connection);
  peers_.set_inbound(peer);
  state_.outbox.inbound(peer);
  return peer;
}

bool Engine::accept_control(Connection& connection, const Hello& hello) {
  Peer* const peer =
      &(state_.options->strangers.apply() ? stranger(connection, hello) : returning_peer(connection, hello));
  peer->url = connection.remote;
  peer->bulk_count = hello.bulk_connections;
  peer->token = random_.next();
  peer->same_host = local_address(connection.socket()).same_host(remote_address(connection.socket()));
  peer->reached = reached_url(local_address(connection.socket()));
  half_open_.erase(&connection);
  connection.peer = peer;
  peer->state = PeerPhase::kUp;
  peer->channels[0].connection = &connection;  // so that it is closed with the peer, whatever happens next
  const std::uint16_t version = std::min(hello.version_max, kVersionMax);
  if (!say_welcome(connection, Welcome{Errc::kOk, version, peer->token, peer->receiver().grant()})) return false;
  peer->connected(connection, hello.limits);
  return true;
}

bool Engine::accept_bulk(Connection& connection, const Hello& hello, const std::byte* bytes) {
  Peer* const peer = peers_.inbound(hello.link);
  const bool known_peer = peer != nullptr && peer->state == PeerPhase::kUp && hello.channel <= peer->bulk_count &&
                          peer->channels[hello.channel].connection == nullptr;
  const bool proving = hello.version_min >= kProvingVersion;
  if (known_peer && proving && peer->link_key && reached_url(local_address(connection.socket())) == peer->reached)
    return begin_proof(connection, *peer, hello, bytes);
  if (!known_peer || proving || peer->link_key || peer->token != hello.token) {
    // As a rule its control connection went while it was on the way: nothing that anybody must know.
    SPATE_LOG("bmi/tcp", debug, "bulk connection refused, its control connection is gone peer={}", connection.remote);
    return refuse(connection, Welcome{Errc::kConnectionLost, hello.version_min, 0, {}});
  }
  if (!say_welcome(connection, Welcome{Errc::kOk, hello.version_min, 0, {}})) return false;
  return open_accepted_bulk(connection, *peer, hello.channel);
}

/// The acceptor proves first, and remains without obligations until the connector has: half open, a stranger.
bool Engine::begin_proof(Connection& connection, const Peer& peer, const Hello& hello, const std::byte* bytes) {
  auto handshake = std::make_unique<BulkHandshake>();
  std::copy_n(bytes, kHelloSize, handshake->hello.begin());
  handshake->welcome = encode(Welcome{Errc::kOk, kVersionMax, random_.next(), {}});
  handshake->peer = peer.id;
  handshake->connections = peer.connections;
  handshake->channel = hello.channel;
  const LinkProof proof = link_proof(*peer.link_key, Side::kAcceptor, handshake->hello, handshake->welcome);
  std::array<std::byte, kWelcomeSize + sizeof proof> answer;
  std::ranges::copy(handshake->welcome, answer.begin());
  std::ranges::copy(proof, answer.begin() + kWelcomeSize);
  connection.handshake = std::move(handshake);
  connection.set_handler(proof_handler_);
  return send_whole(connection.socket(), answer);
}

bool Engine::on_connectors_proof(Connection& connection, const std::byte* bytes) {
  const std::unique_ptr<BulkHandshake> handshake = std::move(connection.handshake);
  Peer* const peer = peers_.find(handshake->peer);
  const bool same = peer != nullptr && peer->state == PeerPhase::kUp && peer->connections == handshake->connections &&
                    peer->link_key && peer->channels[handshake->channel].connection == nullptr;
  if (same) {
    const LinkProof wanted = link_proof(*peer->link_key, Side::kConnector, handshake->hello, handshake->welcome);
    if (equal_secret(wanted, ByteView(bytes, sizeof wanted)))
      return open_accepted_bulk(connection, *peer, handshake->channel);
    complain(connection.remote, "a bulk connection that does not prove the key of the connection it names");
  }
  ++counters_.refused;
  close_connection(&connection);
  return true;
}

bool Engine::open_accepted_bulk(Connection& connection, Peer& peer, unsigned channel) {
  half_open_.erase(&connection);
  strangers_.remove(&connection);
  deadlines_.clear(connection);
  set_connection_options(connection.socket(), tcp_options_.notsent_lowat_bytes);
  connection.peer = &peer;
  connection.channel = channel;
  peer.channels[channel].connection = &connection;
  peer.connected(connection, {});
  return true;
}

// --- the connecting side ---

void Engine::connect_control(Peer& peer) {
  SPATE_CHECK(peer.outbound && peer.state == PeerPhase::kIdle);
  peer.state = PeerPhase::kConnecting;
  peer.attempted = true;
  peer.address_in_use = 0;
  if (!peer.remote.addresses.empty()) return connect_next_address(peer);
  if (resolver_ == nullptr) {
    resolver_ = std::make_unique<Resolver>();
    if (!watch(resolver_->descriptor(), EPOLLIN, *resolver_)) {
      complain(peer.url, errno_error(errno, "epoll_ctl").message());
      resolver_.reset();
      return state_.lose_later(peer, Errc::kUnreachable);
    }
  }
  resolver_->start(peer.id, peer.remote.host, peer.remote.port);
}

void Engine::on_resolved() {
  for (Resolved& resolved : resolver_->take()) {
    Peer* peer = peers_.find(resolved.peer);
    // The peer was disconnected, or connects again, while the name was looked up.
    if (peer == nullptr || peer->state != PeerPhase::kConnecting || peer->channels[0].opening != nullptr) continue;
    if (resolved.addresses.empty()) note_failure(*peer, "the name " + peer->remote.host + " does not resolve");
    peer->remote.addresses = std::move(resolved.addresses);
    connect_next_address(*peer);
  }
}

void Engine::connect_next_address(Peer& peer) {
  for (; peer.address_in_use < peer.remote.addresses.size(); ++peer.address_in_use) {
    if (begin_channel(peer, 0)) return;
  }
  if (peer.remote.named) peer.remote.addresses.clear();  // looked up again next time: the server may have moved
  state_.lose_later(peer, Errc::kUnreachable);
}

bool Engine::begin_channel(Peer& peer, unsigned channel) {
  Result<UniqueFd> socket = begin_connect(peer.remote.addresses[peer.address_in_use]);
  if (!socket) {
    note_failure(peer, socket.error().message());
    return false;
  }
  Connection* connection = add_connection(std::move(*socket), welcome_handler_, channel != 0);
  if (connection == nullptr) {
    complain(peer.url, errno_error(errno, "epoll_ctl").message());
    return false;
  }
  connection->peer = &peer;
  connection->channel = channel;
  connection->remote = peer.url;
  connection->connecting = true;
  watch_again(*connection);
  peer.channels[channel].opening = connection;
  set_deadline(*connection, std::chrono::milliseconds(state_.options->connect_timeout_ms));
  return true;
}

void Engine::connect_bulk(Peer& peer) {
  for (unsigned channel = 1; channel <= peer.bulk_count; ++channel) {
    if (!begin_channel(peer, channel)) return state_.lose_later(peer, Errc::kConnectionLost);
  }
}

void Engine::connect_ended(Connection& connection) {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  if (::getsockopt(connection.socket(), SOL_SOCKET, SO_ERROR, &error_number, &size) != 0) error_number = errno;
  if (error_number != 0) {
    note_failure(*connection.peer, connect_failure(error_number));
    return connection_failed(connection, false);
  }
  connection.connecting = false;
  watch_again(connection);
  if (!say_hello(connection)) connection_failed(connection, false);
}

bool Engine::say_hello(Connection& connection) {
  Peer& peer = *connection.peer;
  Hello hello;
  hello.channel = static_cast<std::uint8_t>(connection.channel);
  hello.bulk_connections = static_cast<std::uint8_t>(peer.bulk_count);
  hello.link = peer.link_id;
  if (connection.channel == 0) {
    hello.limits = peer.receiver().grant();
    peer.same_host = local_address(connection.socket()).same_host(remote_address(connection.socket()));
    peer.reached = reached_url(remote_address(connection.socket()));
  } else if (peer.link_key) {
    hello.version_min = kProvingVersion;
    hello.token = random_.next();
    connection.handshake = std::make_unique<BulkHandshake>();
    connection.handshake->hello = encode(hello);
  } else {
    hello.version_max = kProvingVersion - 1;
    hello.token = peer.token;
  }
  return send_whole(connection.socket(), encode(hello));
}

bool Engine::on_welcome(Connection& connection, const std::byte* bytes) {
  const std::optional<Welcome> welcome = decode_welcome(bytes);
  if (!welcome) return false;
  Peer& peer = *connection.peer;
  if (welcome->status != Errc::kOk) {
    const bool control = connection.channel == 0;
    if (control) note_failure(peer, "refused by the server: " + std::string(describe(welcome->status)));
    state_.lose_later(peer, control ? welcome->status : Errc::kConnectionLost);
    connection.drop_input();
    return true;
  }
  if (connection.handshake != nullptr) {
    if (welcome->version < kProvingVersion) return false;
    std::copy_n(bytes, kWelcomeSize, connection.handshake->welcome.begin());
    connection.set_handler(proof_handler_);
    return true;
  }
  deadlines_.clear(connection);
  peer.channels[connection.channel].opening = nullptr;
  if (connection.channel == 0) peer.token = welcome->token;
  peer.connected(connection, welcome->limits);
  begin_sweeps();
  return true;
}

bool Engine::on_acceptors_proof(Connection& connection, const std::byte* bytes) {
  const std::unique_ptr<BulkHandshake> handshake = std::move(connection.handshake);
  Peer& peer = *connection.peer;
  const auto proof = [&](Side side) { return link_proof(*peer.link_key, side, handshake->hello, handshake->welcome); };
  if (!equal_secret(proof(Side::kAcceptor), ByteView(bytes, sizeof(LinkProof)))) {
    complain(connection.remote, "whoever accepted a bulk connection is not who accepted the control connection");
    return false;
  }
  if (!send_whole(connection.socket(), proof(Side::kConnector))) return false;
  deadlines_.clear(connection);
  peer.channels[connection.channel].opening = nullptr;
  peer.connected(connection, {});
  return true;
}

/// For whoever asks later, and in the log.
void Engine::note_failure(Peer& peer, std::string why) {
  complain(peer.url, why);
  peer.failure = std::move(why);
}

void Engine::attempt_failed(Peer& peer) {
  close_connection(peer.channels[0].opening);
  peer.channels[0].opening = nullptr;
  ++peer.address_in_use;
  connect_next_address(peer);
}

}  // namespace spate::bmi::tcp
