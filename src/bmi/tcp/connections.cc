// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/connections.h"

#include <cerrno>
#include <utility>

#include "bmi/tcp/endpoint.h"

namespace spate::bmi::tcp {

Connection* Connections::add(UniqueFd socket, FrameHandler& handler, bool bulk) {
  set_connection_options(socket.get(), bulk ? state_.tcp_options.notsent_lowat_bytes : 0);
  auto connection = std::make_unique<Connection>(std::move(socket), handler);
  Connection* raw = connection.get();
  if (!events_.watch(*raw)) {
    const int error = errno;
    connection.reset();  // closes the socket, which may change errno
    errno = error;
    return nullptr;
  }
  open_.emplace(raw, std::move(connection));
  return raw;
}

void Connections::close(Connection* connection) {
  if (connection == nullptr || connection->closed) return;
  connection->closed = true;
  connection->close();
  deadlines_.clear(*connection);
  state_.unauthenticated_peers.remove(connection);
  slices_.remove(*connection);
  const auto found = open_.find(connection);
  closed_.push_back(std::move(found->second));
  open_.erase(found);
}

void Connections::block(Connection& connection) {
  connection.write_blocked = true;
  watch_again(connection);
}

void Connections::watch_again(Connection& connection) {
  if (events_.watch_again(connection)) return;
  state_.peer_log.peer_dropped(connection.remote, errno_error(errno, "epoll_ctl").message());
  if (connection.peer == nullptr) return;                      // its deadline ends it
  state_.lose_later(*connection.peer, Errc::kConnectionLost);  // no event of the connection would be reported any more
}

void Connections::lose_peer(Peer& peer, Errc status) {
  if (peer.state == PeerPhase::kIdle || peer.state == PeerPhase::kGone) return;
  if (peer.state == PeerPhase::kUp && status != Errc::kOk) ++state_.tcp_counters.connections_lost;
  for (Channel& channel : peer.channels) {
    close(channel.connection);
    close(channel.opening);
  }
  peer.state = peer.outbound ? PeerPhase::kIdle : PeerPhase::kGone;
  peer.disconnected(status);
  if (!peer.outbound) state_.left(peer, state_.tcp_options.gone_peers_kept);
}

void Connections::drop_unauthenticated(Connection& connection, std::string_view why) {
  ++state_.tcp_counters.unauthenticated_dropped;
  state_.peer_log.unauthenticated_dropped(connection.remote, why);
  if (connection.peer != nullptr) return lose_peer(*connection.peer, Errc::kConnectionLost);
  ++state_.tcp_counters.refused;
  close(&connection);
}

}  // namespace spate::bmi::tcp
