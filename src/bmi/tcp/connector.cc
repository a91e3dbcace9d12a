// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/connector.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/check.h"

namespace spate::bmi::tcp {
namespace {

std::string connect_failure(int error_number) {
  if (error_number == ECONNREFUSED) return "nobody listens there";
  return std::generic_category().message(error_number);
}

}  // namespace

void Connector::connect_control(Peer& peer) {
  SPATE_CHECK(peer.outbound && peer.state == PeerPhase::kIdle);
  peer.state = PeerPhase::kConnecting;
  peer.attempted = true;
  peer.address_in_use = 0;
  if (!peer.remote.addresses.empty()) return connect_next_address(peer);
  if (resolver_ == nullptr) {
    resolver_ = std::make_unique<Resolver>();
    if (!events_.watch(resolver_->descriptor(), EPOLLIN, *resolver_)) {
      state_.peer_log.connect_failed(peer.url, errno_error(errno, "epoll_ctl").message());
      resolver_.reset();
      return state_.lose_later(peer, Errc::kUnreachable);
    }
  }
  resolver_->start(peer.id, peer.remote.host, peer.remote.port);
}

void Connector::on_resolved() {
  for (Resolved& resolved : resolver_->take()) {
    Peer* peer = state_.peers.find(resolved.peer);
    // While the name was looked up, the peer was disconnected or began to connect again.
    if (peer == nullptr || peer->state != PeerPhase::kConnecting || peer->channels[0].opening != nullptr) continue;
    if (resolved.addresses.empty()) note_failure(*peer, "the name " + peer->remote.host + " does not resolve");
    peer->remote.addresses = std::move(resolved.addresses);
    connect_next_address(*peer);
  }
}

void Connector::connect_next_address(Peer& peer) {
  for (; peer.address_in_use < peer.remote.addresses.size(); ++peer.address_in_use) {
    if (begin_channel(peer, 0)) return;
  }
  // The name is looked up again next time, since the server may have moved.
  if (peer.remote.named) peer.remote.addresses.clear();
  state_.lose_later(peer, Errc::kUnreachable);
}

bool Connector::begin_channel(Peer& peer, unsigned channel) {
  Result<UniqueFd> socket = begin_connect(peer.remote.addresses[peer.address_in_use]);
  if (!socket) {
    note_failure(peer, socket.error().message());
    return false;
  }
  Connection* connection = connections_.add(std::move(*socket), welcome_handler_, channel != 0);
  if (connection == nullptr) {
    state_.peer_log.connect_failed(peer.url, errno_error(errno, "epoll_ctl").message());
    return false;
  }
  connection->peer = &peer;
  connection->channel = channel;
  connection->remote = peer.url;
  connection->connecting = true;
  connections_.watch_again(*connection);
  peer.channels[channel].opening = connection;
  connections_.set_deadline(*connection, std::chrono::milliseconds(state_.options->connect_timeout_ms));
  return true;
}

void Connector::connect_bulk(Peer& peer) {
  for (unsigned channel = 1; channel <= peer.bulk_count; ++channel) {
    if (!begin_channel(peer, channel)) return state_.lose_later(peer, Errc::kConnectionLost);
  }
}

bool Connector::connect_ended(Connection& connection) {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  if (::getsockopt(connection.socket(), SOL_SOCKET, SO_ERROR, &error_number, &size) != 0) error_number = errno;
  if (error_number != 0) {
    note_failure(*connection.peer, connect_failure(error_number));
    return false;
  }
  connection.connecting = false;
  connections_.watch_again(connection);
  const Endpoint& remote = connection.peer->remote;
  return remote.secure ? tls_.connect(connection, remote.host) : say_hello(connection);
}

bool Connector::say_hello(Connection& connection) {
  Peer& peer = *connection.peer;
  Hello hello;
  hello.channel = static_cast<std::uint8_t>(connection.channel);
  hello.bulk_connections = static_cast<std::uint8_t>(peer.bulk_count);
  hello.link = peer.link_id;
  if (connection.channel == 0) {
    hello.limits = peer.receiver().grant();
    peer.same_host = local_address(connection.socket()).same_host(remote_address(connection.socket()));
    peer.reached = reached_url(remote_address(connection.socket()), peer.remote.secure);
    peer.secured_by(connection.stream());
  } else if (peer.link_key) {
    hello.versions.min = kProvingVersion;
    hello.token = state_.random.next();
    connection.handshake = std::make_unique<BulkHandshake>();
    connection.handshake->hello = encode(hello);
  } else {
    hello.versions.max = kProvingVersion - 1;
    hello.token = peer.token;
  }
  return connection.send_whole(encode(hello));
}

bool Connector::on_welcome(Connection& connection, const std::byte* bytes) {
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
  connections_.deadlines().clear(connection);
  peer.channels[connection.channel].opening = nullptr;
  if (connection.channel == 0) peer.token = welcome->token;
  peer.connected(connection, welcome->limits);
  idle_.begin();
  return true;
}

bool Connector::on_proof(Connection& connection, const std::byte* bytes) {
  const std::unique_ptr<BulkHandshake> handshake = std::move(connection.handshake);
  Peer& peer = *connection.peer;
  const auto proof = [&](Side side) {
    return link_proof(*peer.link_key, side, handshake->hello, handshake->welcome, connection.binding());
  };
  if (!equal_secret(proof(Side::kAcceptor), ByteView(bytes, sizeof(LinkProof)))) {
    state_.peer_log.peer_dropped(connection.remote,
                                 "a bulk connection was accepted by another process than the control connection");
    return false;
  }
  if (!connection.send_whole(proof(Side::kConnector))) return false;
  connections_.deadlines().clear(connection);
  peer.channels[connection.channel].opening = nullptr;
  peer.connected(connection, {});
  return true;
}

/// Keeps the reason for callers that ask later, and logs it.
void Connector::note_failure(Peer& peer, std::string why) {
  state_.peer_log.connect_failed(peer.url, why);
  peer.failure = std::move(why);
}

void Connector::attempt_failed(Peer& peer) {
  connections_.close(peer.channels[0].opening);
  peer.channels[0].opening = nullptr;
  ++peer.address_in_use;
  connect_next_address(peer);
}

}  // namespace spate::bmi::tcp
