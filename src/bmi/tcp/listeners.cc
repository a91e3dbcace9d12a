// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/listeners.h"

#include <algorithm>
#include <cerrno>

#include "log/log.h"

namespace spate::bmi::tcp {

bool Listeners::add(UniqueFd socket, ContextId context, bool secure) {
  auto listener = std::make_unique<Listener>();
  listener->socket = std::move(socket);
  listener->context = context;
  listener->secure = secure;
  if (!events_.watch(listener->socket.get(), EPOLLIN, *listener)) return false;
  listeners_.push_back(std::move(listener));
  return true;
}

void Listeners::accept_from(Listener& listener) {
  const auto take = [&](UniqueFd socket) { accepted(std::move(socket), listener); };
  if (acceptor_.accept(listener.socket.get(), take)) return;
  ++state_.tcp_counters.refused;
  state_.peer_log.out_of_descriptors();
}

void Listeners::accepted(UniqueFd socket, Listener& listener) {
  const SocketAddress remote = remote_address(socket.get());
  const std::string name = (listener.secure ? "tcp+tls://" : "tcp://") + remote.text();
  Connection* connection = connections_.add(std::move(socket), hello_handler_, false);
  if (connection == nullptr) {
    ++state_.tcp_counters.refused;
    return state_.peer_log.peer_dropped(name,
                                        errno_error(errno, "epoll_ctl (raise fs.epoll.max_user_watches)").message());
  }
  connection->remote = name;
  connection->accepted_at = state_.clock.now();
  connection->context = listener.context;
  connections_.set_deadline(*connection, state_.hello_timeout());
  const auto victim =
      state_.unauthenticated_peers.add(connection, remote.source(), state_.options->unauthenticated, state_.random);
  if (victim) connections_.drop_unauthenticated(**victim, "too many unauthenticated peers");
  if (!listener.secure || connection->closed || tls_.accept(*connection)) return;
  ++state_.tcp_counters.refused;
  connections_.close(connection);
}

/// Tells a correct process why it is refused. Returns true, since the process has kept to the protocol.
bool Listeners::refuse(Connection& connection, const Welcome& welcome) {
  (void)connection.send_whole(encode(welcome));
  ++state_.tcp_counters.refused;
  connections_.close(&connection);
  return true;
}

bool Listeners::on_hello(Connection& connection, const std::byte* bytes) {
  const std::optional<Hello> hello = decode_hello(bytes);
  if (!hello && is_tls(ByteView(bytes, kHelloSize))) {
    state_.peer_log.peer_dropped(connection.remote,
                                 "the client speaks TLS: its spate.toml may have tcp+tls:// for this tcp:// address");
    return refuse(connection, Welcome{Errc::kVersionMismatch, kVersionMax, 0, {}});  // in clear: TLS takes it for none
  }
  if (!hello) return false;
  if (!hello->versions.meets(kVersions)) {
    state_.peer_log.versions_differ(connection.remote, hello->versions, kVersions);
    return refuse(connection, Welcome{Errc::kVersionMismatch, kVersionMax, 0, {}});
  }
  return hello->channel == 0 ? accept_control(connection, *hello) : accept_bulk(connection, *hello, bytes);
}

Peer& Listeners::unauthenticated_peer(Connection& connection, const Hello& hello) {
  Peer& peer = state_.unauthenticated_peer(hello.link, connection.context);
  connections_.set_deadline(connection, connection.accepted_at +
                                            std::chrono::milliseconds(state_.options->unauthenticated.deadline_ms) -
                                            state_.clock.now());
  return peer;
}

Peer& Listeners::returning_peer(Connection& connection, const Hello& hello) {
  state_.unauthenticated_peers.remove(&connection);
  connections_.deadlines().clear(connection);
  return state_.returning_peer(hello.link, connection.context, connections_);
}

bool Listeners::accept_control(Connection& connection, const Hello& hello) {
  Peer* const peer = &(state_.options->unauthenticated.apply() ? unauthenticated_peer(connection, hello)
                                                               : returning_peer(connection, hello));
  peer->url = connection.remote;
  peer->bulk_count = hello.bulk_connections;
  peer->token = state_.random.next();
  peer->same_host = local_address(connection.socket()).same_host(remote_address(connection.socket()));
  peer->reached = reached_url(local_address(connection.socket()), connection.stream() != nullptr);
  peer->secured_by(connection.stream());
  connection.peer = peer;
  peer->state = PeerPhase::kUp;
  peer->channels[0].connection = &connection;  // so that the connection is closed with the peer if the rest fails
  const std::uint16_t version = std::min(hello.versions.max, kVersionMax);
  if (!connection.send_whole(encode(Welcome{Errc::kOk, version, peer->token, peer->receiver().grant()}))) return false;
  peer->connected(connection, hello.limits);
  return true;
}

bool Listeners::accept_bulk(Connection& connection, const Hello& hello, const std::byte* bytes) {
  Peer* const peer = state_.peers.inbound(hello.link);
  const bool secure = connection.stream() != nullptr;
  const bool known_peer = peer != nullptr && peer->state == PeerPhase::kUp && hello.channel <= peer->bulk_count &&
                          secure == !peer->security.empty() && peer->channels[hello.channel].connection == nullptr;
  const bool proving = hello.versions.min >= kProvingVersion;
  if (known_peer && proving && peer->link_key &&
      reached_url(local_address(connection.socket()), secure) == peer->reached)
    return begin_proof(connection, *peer, hello, bytes);
  if (!known_peer || proving || peer->link_key || peer->token != hello.token) {
    // Usually the control connection ended while this one was being made, so there is nothing to warn of.
    SPATE_LOG("bmi/tcp", debug, "bulk connection refused, its control connection is gone peer={}", connection.remote);
    return refuse(connection, Welcome{Errc::kConnectionLost, hello.versions.min, 0, {}});
  }
  if (!connection.send_whole(encode(Welcome{Errc::kOk, hello.versions.min, 0, {}}))) return false;
  return open_bulk(connection, *peer, hello.channel);
}

/// The acceptor proves that it knows the key before the connector does. Until the connector has proved that, too, the
/// acceptor treats the connection as an unauthenticated peer's.
bool Listeners::begin_proof(Connection& connection, const Peer& peer, const Hello& hello, const std::byte* bytes) {
  auto handshake = std::make_unique<BulkHandshake>();
  std::copy_n(bytes, kHelloSize, handshake->hello.begin());
  handshake->welcome = encode(Welcome{Errc::kOk, kVersionMax, state_.random.next(), {}});
  handshake->peer = peer.id;
  handshake->connections = peer.connections;
  handshake->channel = hello.channel;
  const LinkProof proof =
      link_proof(*peer.link_key, Side::kAcceptor, handshake->hello, handshake->welcome, connection.binding());
  std::array<std::byte, kWelcomeSize + sizeof proof> answer;
  std::ranges::copy(handshake->welcome, answer.begin());
  std::ranges::copy(proof, answer.begin() + kWelcomeSize);
  connection.handshake = std::move(handshake);
  connection.set_handler(proof_handler_);
  return connection.send_whole(answer);
}

bool Listeners::on_proof(Connection& connection, const std::byte* bytes) {
  const std::unique_ptr<BulkHandshake> handshake = std::move(connection.handshake);
  Peer* const peer = state_.peers.find(handshake->peer);
  const bool same = peer != nullptr && peer->state == PeerPhase::kUp && peer->connections == handshake->connections &&
                    peer->link_key && peer->channels[handshake->channel].connection == nullptr;
  if (same) {
    const LinkProof wanted =
        link_proof(*peer->link_key, Side::kConnector, handshake->hello, handshake->welcome, connection.binding());
    if (equal_secret(wanted, ByteView(bytes, sizeof wanted))) return open_bulk(connection, *peer, handshake->channel);
    state_.peer_log.peer_dropped(connection.remote,
                                 "a bulk connection that does not prove the key of the connection it names");
  }
  ++state_.tcp_counters.refused;
  connections_.close(&connection);
  return true;
}

bool Listeners::open_bulk(Connection& connection, Peer& peer, unsigned channel) {
  state_.unauthenticated_peers.remove(&connection);
  connections_.deadlines().clear(connection);
  set_connection_options(connection.socket(), state_.tcp_options.notsent_lowat_bytes);
  connection.peer = &peer;
  connection.channel = channel;
  peer.channels[channel].connection = &connection;
  peer.connected(connection, {});
  return true;
}

void Listeners::admitted(Peer& peer) {
  Connection& connection = *peer.channels[0].connection;
  state_.unauthenticated_peers.remove(&connection);
  connections_.deadlines().clear(connection);
  state_.admitted(peer, connections_);
}

}  // namespace spate::bmi::tcp
