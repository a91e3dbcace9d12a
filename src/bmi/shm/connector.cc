// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/connector.h"

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/check.h"

namespace spate::bmi::shm {
namespace {

constexpr Duration kConnectAgain = std::chrono::milliseconds(2);

}  // namespace

void Connector::connect(Peer& peer) {
  SPATE_CHECK(peer.outbound && peer.state == PeerPhase::kIdle);
  peer.state = PeerPhase::kConnecting;
  peer.attempted = true;
  Result<UniqueFd> socket = make_socket();
  if (!socket) return attempt_failed(peer, socket.error().message());
  Link* link = &links_.add(std::move(*socket), Side::kConnector);
  peer.link = link;
  link->peer = &peer;
  link->remote = peer.url;
  link->connecting = true;
  link->give_up = state_.clock.now() + std::chrono::milliseconds(state_.options->connect_timeout_ms);
  try_connect(*link);
}

void Connector::try_connect(Link& link) {
  Peer& peer = *link.peer;
  const int failed = connect_to(link.socket(), peer.remote);
  if (failed == EAGAIN) return links_.deadlines().set(link, std::min(link.give_up, state_.clock.now() + kConnectAgain));
  if (failed != 0) {
    const std::string why = failed == ENOENT || failed == ECONNREFUSED
                                ? std::string("no server listens there on this host")
                                : errno_error(failed, "connect").message();
    return attempt_failed(peer, why);
  }
  const Result<Credentials> credentials = peer_of(link.socket());
  if (credentials) link.credentials = *credentials;
  link.trusted = credentials && (credentials->uid == state_.own_uid || credentials->uid == 0);
  if (!credentials || link.own_bell() < 0) return attempt_failed(peer, "out of file descriptors (raise ulimit -n)");
  // Any user can bind a name. So this side asks the kernel which user did, before it sends anything.
  if (!state_.shm_options.servers.admits(credentials->uid, state_.own_uid)) {
    const std::string why = "held by uid " + std::to_string(credentials->uid) +
                            ", not by a server's user; skipped (network.shm_server_users)";
    ++state_.shm_counters.refused;
    state_.peer_log.peer_dropped(link.remote, why);
    return attempt_failed(peer, why);
  }
  link.reached = reached_url(link.socket(), true);
  const bool watched = events_.watch_socket(link) && events_.watch_bell(link);
  if (!watched) return attempt_failed(peer, errno_error(errno, "epoll_ctl").message());
  link.connecting = false;
  if (!say_hello(link)) return attempt_failed(peer, "the server closed the connection");
  links_.deadlines().set(link, link.give_up);
}

bool Connector::say_hello(Link& link) {
  Hello hello;
  hello.link = link.peer->link_id;
  hello.limits = link.peer->grant_limits();
  const int bell = link.own_bell();
  return send_packet(link.socket(), encode(hello), std::span(&bell, 1)) == 0;
}

void Connector::on_welcome(Link& link) {
  Packet packet;
  receive_packet(link.socket(), packet);
  if (packet.status == Packet::Status::kNothing) return;
  Peer& peer = *link.peer;
  if (packet.status == Packet::Status::kClosed) return attempt_failed(peer, "the server closed the connection");
  Limits limits;
  const Result<void> accepted = accept_welcome(link, packet, limits);
  if (!accepted) return attempt_failed(peer, accepted.error().message());
  links_.deadlines().clear(link);
  peer.connected(link, limits);
  polled_.add(link);
}

Result<void> Connector::accept_welcome(Link& link, Packet& packet, Limits& limits) {
  const std::optional<Welcome> welcome = decode_welcome(packet.view());
  if (!welcome) return Error(Errc::kProtocol, "the process that listens there is no spate server");
  if (welcome->status == Errc::kPermissionDenied) {
    return Error(welcome->status, "the server " + describe(welcome->policy, link.credentials.uid) +
                                      "; this process is uid " + std::to_string(state_.own_uid) +
                                      " (network.shm_users)");
  }
  if (welcome->status != Errc::kOk) return Error(welcome->status, "refused by the server");
  if (packet.descriptor_count != 2)
    return Error(Errc::kProtocol, "a welcome without shared memory (out of descriptors?)");
  SPATE_TRY(std::ignore, link.map_segment(welcome->geometry, packet.descriptors[0].get(), welcome->version));
  link.set_remote_bell(std::move(packet.descriptors[1]));
  limits = welcome->limits;
  return {};
}

void Connector::attempt_failed(Peer& peer, std::string why) {
  state_.peer_log.not_connected(peer.url, why);
  peer.failure = std::move(why);
  state_.lose_later(peer, Errc::kUnreachable);
}

void Connector::on_deadline(Link& link) {
  if (state_.clock.now() < link.give_up) return try_connect(link);
  attempt_failed(*link.peer, "no answer within the connect timeout");
}

}  // namespace spate::bmi::shm
