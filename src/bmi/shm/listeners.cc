// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/listeners.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace spate::bmi::shm {
namespace {

std::uint64_t inode_of(const std::string& path) {
  struct stat st{};
  return ::lstat(path.c_str(), &st) == 0 ? static_cast<std::uint64_t>(st.st_ino) : 0;
}

}  // namespace

Listener::~Listener() {
  if (!path.empty() && inode_of(path) == inode) ::unlink(path.c_str());
}

Result<std::string> Listeners::listen(std::string_view url, ContextId context) {
  SPATE_TRY(const Endpoint wanted, parse_url(url));
  const Endpoint endpoint = named(wanted, state_.random);
  auto listener = std::make_unique<Listener>();
  SPATE_TRY(listener->socket, listen_on(endpoint, state_.shm_options.policy.kind != AccessPolicy::Kind::kSameUser));
  listener->context = context;
  listener->url = url_of(endpoint);
  if (!endpoint.abstract) {
    listener->inode = inode_of(endpoint.name);
    listener->path = endpoint.name;
  }
  if (!events_.watch(listener->socket.get(), EPOLLIN, *listener))
    return errno_error(errno, "listen on " + std::string(url));
  listeners_.push_back(std::move(listener));
  return url_of(endpoint);
}

void Listeners::accept_from(Listener& listener) {
  const auto take = [&](UniqueFd socket) { accepted(std::move(socket), listener); };
  if (acceptor_.accept(listener.socket.get(), take)) return;
  ++state_.shm_counters.refused;
  state_.peer_log.out_of_descriptors();
}

void Listeners::accepted(UniqueFd socket, Listener& listener) {
  const Result<Credentials> credentials = peer_of(socket.get());
  if (!credentials) return;
  Link* link = &links_.add(std::move(socket), Side::kAcceptor);
  link->credentials = *credentials;
  link->trusted = credentials->uid == state_.own_uid || credentials->uid == 0;
  link->remote = listener.url + "#" + std::to_string(credentials->pid);
  link->reached = reached_url(link->socket(), false);
  link->context = listener.context;
  link->accepted_at = state_.clock.now();
  if (!events_.watch_socket(*link)) {
    ++state_.shm_counters.refused;
    state_.peer_log.peer_dropped(link->remote,
                                 errno_error(errno, "epoll_ctl (raise fs.epoll.max_user_watches)").message());
    return links_.close(link);
  }
  links_.deadlines().set(*link, link->accepted_at + state_.hello_timeout());
  const std::string source = "uid " + std::to_string(credentials->uid);
  const auto victim = state_.unauthenticated_peers.add(link, source, state_.options->unauthenticated, state_.random);
  if (victim) links_.drop_unauthenticated(**victim, "too many unauthenticated peers");
}

void Listeners::on_hello(Link& link) {
  Packet packet;
  receive_packet(link.socket(), packet);
  if (packet.status == Packet::Status::kNothing) return;
  Hello hello;
  Welcome welcome;
  if (packet.status == Packet::Status::kPacket && lets_in(link, packet, welcome, hello) &&
      welcome_peer(link, hello, welcome, std::move(packet.descriptors[0]))) {
    return;
  }
  ++state_.shm_counters.refused;
  if (link.peer == nullptr) links_.close(&link);
}

bool Listeners::lets_in(Link& link, const Packet& packet, Welcome& welcome, Hello& hello) {
  const std::optional<Hello> said = decode_hello(packet.view());
  if (!said) {
    ++state_.shm_counters.protocol_errors;
    state_.peer_log.peer_dropped(link.remote, "not a hello");
    return false;
  }
  hello = *said;
  welcome.policy = state_.shm_options.policy.kind;
  welcome.geometry = state_.shm_options.geometry;
  if (!hello.versions.meets(kVersions)) {
    welcome.status = Errc::kVersionMismatch;
    state_.peer_log.versions_differ(link.remote, hello.versions, kVersions);
    refuse(link, welcome);
    return false;
  }
  if (!state_.shm_options.policy.admits(link.credentials.uid, state_.own_uid)) {
    welcome.status = Errc::kPermissionDenied;
    state_.peer_log.peer_dropped(link.remote, "user " + std::to_string(link.credentials.uid) +
                                                  " is not admitted: this server " +
                                                  describe(welcome.policy, state_.own_uid));
    refuse(link, welcome);
    return false;
  }
  if (packet.descriptor_count == 1) return true;
  ++state_.shm_counters.protocol_errors;
  state_.peer_log.peer_dropped(link.remote, "a hello without its descriptor");
  return false;
}

/// Tells a correct process why it is refused.
void Listeners::refuse(Link& link, const Welcome& welcome) { (void)send_packet(link.socket(), encode(welcome), {}); }

Peer& Listeners::unauthenticated_peer(Link& link, const Hello& hello) {
  Peer& peer = state_.unauthenticated_peer(hello.link, link.context);
  links_.deadlines().set(link,
                         link.accepted_at + std::chrono::milliseconds(state_.options->unauthenticated.deadline_ms));
  return peer;
}

Peer& Listeners::returning_peer(Link& link, const Hello& hello) {
  state_.unauthenticated_peers.remove(&link);
  links_.deadlines().clear(link);
  return state_.returning_peer(hello.link, link.context, links_);
}

bool Listeners::welcome_peer(Link& link, const Hello& hello, Welcome welcome, UniqueFd bell) {
  const bool unauthenticated = state_.options->unauthenticated.apply();
  welcome.version = std::min(hello.versions.max, kVersionMax);
  // An unauthenticated peer that speaks version 1 keeps narrow lanes as long as the link exists.
  if (unauthenticated && welcome.version < kVersionOfNarrowLanes) welcome.geometry = kNarrow;
  Result<UniqueFd> segment = link.make_segment(welcome.geometry, welcome.version);
  const bool watched = segment && events_.watch_bell(link);
  if (!watched) {
    welcome.status = Errc::kNoMemory;
    state_.peer_log.peer_dropped(link.remote,
                                 segment ? "out of file descriptors (raise ulimit -n)" : segment.error().message());
    refuse(link, welcome);
    return false;
  }
  link.set_remote_bell(std::move(bell));
  Peer* const peer = &(unauthenticated ? unauthenticated_peer(link, hello) : returning_peer(link, hello));
  peer->url = link.remote;
  link.peer = peer;
  peer->link = &link;  // so that the link is closed with the peer if the rest fails
  peer->state = PeerPhase::kUp;
  welcome.limits = peer->grant_limits();
  const std::array<int, 2> passed{segment->get(), link.own_bell()};
  if (send_packet(link.socket(), encode(welcome), passed) != 0) {
    state_.lose_later(*peer, Errc::kConnectionLost);
    return true;
  }
  peer->connected(link, hello.limits);
  if (!unauthenticated) peer->widen();
  polled_.add(link);
  return true;
}

void Listeners::admitted(Peer& peer) {
  state_.unauthenticated_peers.remove(peer.link);
  links_.deadlines().clear(*peer.link);
  state_.admitted(peer, links_);
  peer.widen();
}

}  // namespace spate::bmi::shm
