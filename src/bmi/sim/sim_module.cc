// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/sim_module.h"

#include <algorithm>
#include <utility>

#include "bmi/registry.h"
#include "bmi/sim/attach.h"

namespace spate::bmi::sim {
SimModule::SimModule(Fabric& fabric, NetworkInterface interface)
    : fabric_(fabric), scheme_(url_scheme(url_of(interface))), host_{fabric, interface, 0, nullptr, nullptr, outbox_} {
  // The module enters now, so that a second process at the same place is refused at once and not when it starts.
  host_.instance = fabric_.enter(interface, *this);
}

SimModule::~SimModule() { fabric_.leave(host_.interface, *this); }

Abilities SimModule::abilities() const {
  Abilities abilities;
  abilities.virtual_time = true;
  abilities.passes_descriptors = fabric_.hosts().copies_descriptors();
  return abilities;
}

Result<void> SimModule::start(Sink& sink, const NetworkOptions& options) {
  host_.sink = &sink;
  host_.options = &options;
  return {};
}

Result<std::string> SimModule::listen(std::string_view url, ContextId context) {
  const std::optional<NetworkInterface> interface = parse_url(url);
  if (!interface || *interface != host_.interface)
    return Error(Errc::kBadAddress, std::string(url) + " is not " + url_of(host_.interface));
  if (dead_) return Errc::kConnectionLost;
  if (listening_) return Error(Errc::kExists, std::string(url));
  listening_ = true;
  context_ = context;
  return url_of(host_.interface);
}

Result<PeerId> SimModule::lookup(std::string_view url, Address address) {
  const std::optional<NetworkInterface> target = parse_url(url);
  if (!target || target->path != host_.interface.path) return Error(Errc::kBadAddress, std::string(url));
  const PeerId id{++next_peer_};
  peers_.emplace(id, std::make_unique<Peer>(host_, id, address, target));
  return id;
}

Peer* SimModule::find(PeerId peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : it->second.get();
}

Peer* SimModule::at(ConnectionEnd end) const {
  const auto it = by_end_.find(end);
  return it == by_end_.end() ? nullptr : it->second;
}

PeerState SimModule::peer_state(PeerId peer) const {
  const Peer* known = find(peer);
  return known == nullptr ? PeerState{} : known->state();
}

std::uint32_t SimModule::connection(PeerId peer) const {
  const Peer* known = find(peer);
  return known == nullptr ? 0 : known->connection();
}

void SimModule::track(Peer& peer, ConnectionEnd before) {
  const ConnectionEnd now = peer.end();
  if (now == before) return;
  if (before.connection != 0) by_end_.erase(before);
  if (now.connection != 0) by_end_[now] = &peer;
  if (peer.outbound()) return;
  if (now.connection == 0) unauthenticated_peers_.remove(peer.id());
  std::erase(gone_, peer.id());
  if (now.connection == 0) gone_.push_back(peer.id());
}

void SimModule::disconnect(PeerId peer) {
  Peer* known = find(peer);
  if (known == nullptr || known->end().connection == 0) return;
  const ConnectionEnd before = known->end();
  known->drop(Errc::kConnectionLost);
  track(*known, before);
  flush();
}

Result<PostResult> SimModule::post_send(const Post& post) {
  Peer* peer = find(post.peer);
  if (dead_ || peer == nullptr || !peer->takes(post)) return Errc::kConnectionLost;
  const ConnectionEnd before = peer->end();
  Result<PostResult> result = peer->post_send(post, false);
  settle(*peer, before);
  return result;
}

Result<PostResult> SimModule::post_send_unexpected(const Post& post) {
  Peer* peer = find(post.peer);
  if (dead_ || peer == nullptr || !peer->takes(post)) return Errc::kConnectionLost;
  const ConnectionEnd before = peer->end();
  Result<PostResult> result = peer->post_send(post, true);
  settle(*peer, before);
  return result;
}

Result<PostResult> SimModule::post_recv(const Post& post) {
  Peer* peer = find(post.peer);
  if (dead_ || peer == nullptr || !peer->takes(post)) return Errc::kConnectionLost;
  const ConnectionEnd before = peer->end();
  Result<PostResult> result = peer->post_recv(post);
  settle(*peer, before);
  return result;
}

void SimModule::cancel(PeerId peer, OpId op) {
  Peer* known = find(peer);
  if (known == nullptr) return;
  const ConnectionEnd before = known->end();
  known->cancel(op);
  track(*known, before);
  flush();
}

void SimModule::consumed(PeerId peer, std::uint64_t charge) {
  if (Peer* known = find(peer)) known->consumed(charge);
}

Result<void> SimModule::pass_descriptor(PeerId peer, Tag tag, int fd) {
  const Peer* known = find(peer);
  if (dead_ || known == nullptr || !known->state().connected) return Error(Errc::kConnectionLost, "pass a descriptor");
  if (!known->state().takes_descriptors) return Error(Errc::kNotSupported, "pass a descriptor");
  return fabric_.pass_descriptor(known->end(), tag, fd);
}

Result<UniqueFd> SimModule::take_descriptor(PeerId peer, Tag tag) {
  Peer* known = find(peer);
  if (dead_ || known == nullptr) return Error(Errc::kConnectionLost, "take a descriptor");
  return known->take_descriptor(tag);
}

bool SimModule::progress() {
  const bool any = !outbox_.empty();
  flush();
  return any;
}

// The post may have completed operations. They must be reported, although no other event may ever come to this process.
void SimModule::settle(Peer& peer, ConnectionEnd before) {
  track(peer, before);
  if (!outbox_.empty()) fabric_.poke(host_.interface, host_.instance);
}

// Only this function, inbound, unexpected and forgotten call the core. So no table is being walked when the core calls
// back.
void SimModule::flush() {
  if (flushing_) return;
  flushing_ = true;
  while (!outbox_.empty()) {
    const std::vector<Outcome> outcomes = std::exchange(outbox_, {});
    host_.sink->completed(outcomes);
  }
  flushing_ = false;
}

void SimModule::killed() {
  dead_ = true;
  listening_ = false;
  by_end_.clear();
  for (const auto& [id, peer] : peers_) peer->lose(Errc::kConnectionLost);
  flush();
}

Peer& SimModule::inbound_from(const Hello& from) {
  const auto key = std::pair{from.instance, from.peer};
  if (const auto it = inbound_.find(key); it != inbound_.end()) return *it->second;
  Peer& peer = add_inbound(from);
  inbound_.emplace(key, &peer);
  return peer;
}

/// The unauthenticated peer is a separate peer until it is admitted.
Peer& SimModule::unauthenticated_from(const Hello& from) {
  Peer& peer = add_inbound(from);
  peer.begin_unauthenticated();
  const UnauthenticatedPeerLimits& limits = host_.options->unauthenticated;
  admit_by_.emplace_back(fabric_.now() + std::chrono::milliseconds(limits.deadline_ms), peer.id());
  fabric_.poke_at(admit_by_.back().first, host_.interface, host_.instance);
  const std::string source = "node " + std::to_string(from.interface.node);
  if (const auto victim = unauthenticated_peers_.add(peer.id(), source, limits, fabric_.random()))
    drop_unauthenticated(*victim);
  return peer;
}

void SimModule::drop_unauthenticated(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr || !peer->unauthenticated() || peer->end().connection == 0) return;
  fabric_.mutable_statistics().strangers_dropped += 1;
  const ConnectionEnd before = peer->end();
  peer->drop(Errc::kConnectionLost);
  track(*peer, before);
}

void SimModule::poked() {
  while (!admit_by_.empty() && admit_by_.front().first <= fabric_.now()) {
    const PeerId id = admit_by_.front().second;
    admit_by_.pop_front();
    drop_unauthenticated(id);
  }
  flush();
}

void SimModule::admit(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr || !peer->unauthenticated() || peer->end().connection == 0) return;
  peer->admit();
  unauthenticated_peers_.remove(id);
  const auto [known, fresh] = inbound_.try_emplace({peer->origin().instance, peer->origin().peer}, peer);
  if (fresh) return;
  Peer& old = *std::exchange(known->second, peer);  // the same process, before it came back
  if (old.end().connection == 0) return;
  const ConnectionEnd before = old.end();
  old.drop(Errc::kConnectionLost);
  track(old, before);
  flush();
}

Peer& SimModule::add_inbound(const Hello& from) {
  const PeerId id{++next_peer_};
  const Address address = host_.sink->inbound(id, context_);
  auto peer = std::make_unique<Peer>(host_, id, address, std::nullopt);
  peer->set_origin(from);
  return *peers_.emplace(id, std::move(peer)).first->second;
}

Hello SimModule::accept(ConnectionEnd end, const Hello& from) {
  Peer& peer = host_.options->unauthenticated.apply() ? unauthenticated_from(from) : inbound_from(from);
  const ConnectionEnd before = peer.end();
  // The peer lost a connection that this side thought good.
  if (before.connection != 0) peer.drop(Errc::kConnectionLost);
  const Hello answer = peer.hello();
  peer.connected(end, from);
  track(peer, before);
  forget_the_oldest();
  flush();
  return answer;
}

void SimModule::connected(ConnectionEnd end, const Hello& from) {
  if (Peer* peer = at(end)) {
    peer->connected(end, from);
    track(*peer, end);
  }
  flush();
}

void SimModule::connect_failed(ConnectionEnd end) {
  if (Peer* peer = at(end)) {
    peer->lose(Errc::kUnreachable);
    track(*peer, end);
  }
  flush();
}

void SimModule::lost(ConnectionEnd end) {
  if (Peer* peer = at(end)) {
    peer->lose(Errc::kConnectionLost);
    track(*peer, end);
  }
  forget_the_oldest();
  flush();
}

void SimModule::received(ConnectionEnd end, Packet packet) {
  if (Peer* peer = at(end)) {
    if (peer->unauthenticated() && packet.kind == Packet::Kind::kUnexpected) unauthenticated_peers_.asked(peer->id());
    peer->received(std::move(packet));
    track(*peer, end);
  }
  forget_the_oldest();
  flush();
}

void SimModule::descriptor(ConnectionEnd end, Tag tag, int fd) {
  if (Peer* peer = at(end)) peer->descriptor(tag, fd);
}

void SimModule::left(ConnectionEnd end, std::uint64_t token) {
  if (Peer* peer = at(end)) {
    peer->left(token);
    track(*peer, end);
  }
  flush();
}

void SimModule::delivered(ConnectionEnd end, std::uint64_t transfer) {
  if (Peer* peer = at(end)) {
    peer->delivered(transfer);
    track(*peer, end);
  }
  flush();
}

void SimModule::forget_the_oldest() {
  while (gone_.size() > kRemembered) {
    flush();  // the peer's operations complete before
    if (gone_.size() <= kRemembered) return;
    const PeerId id = gone_.front();
    gone_.pop_front();
    const auto it = peers_.find(id);
    const Hello& origin = it->second->origin();
    const auto known = inbound_.find({origin.instance, origin.peer});
    if (known != inbound_.end() && known->second == it->second.get()) inbound_.erase(known);
    const Address address = it->second->address();
    peers_.erase(it);
    host_.sink->forgotten(id, address);
  }
}

std::unique_ptr<Module> attach(Fabric& fabric, std::uint32_t node, std::uint32_t path) {
  return std::make_unique<SimModule>(fabric, NetworkInterface{node, path});
}

}  // namespace spate::bmi::sim
