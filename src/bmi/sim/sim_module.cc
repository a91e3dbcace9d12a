// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/sim_module.h"

#include <algorithm>
#include <utility>

#include "bmi/registry.h"
#include "bmi/sim/fabric.h"

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
  const PeerId id = peers_.next_id();
  peers_.add(std::make_unique<Peer>(host_, id, address, target));
  return id;
}

PeerState SimModule::peer_state(PeerId peer) const {
  const Peer* known = peers_.find(peer);
  return known == nullptr ? PeerState{} : known->state();
}

std::uint32_t SimModule::connection(PeerId peer) const {
  const Peer* known = peers_.find(peer);
  return known == nullptr ? 0 : known->connection();
}

void SimModule::track(Peer& peer, ConnectionEnd before) {
  const ConnectionEnd now = peer.end();
  if (now == before) return;
  peers_.moved(peer, before);
  if (!peer.outbound() && now.connection == 0) unauthenticated_peers_.remove(peer.id());
}

void SimModule::disconnect(PeerId peer) {
  Peer* known = peers_.find(peer);
  if (known == nullptr || known->end().connection == 0) return;
  const ConnectionEnd before = known->end();
  known->drop(Errc::kConnectionLost);
  track(*known, before);
  flush();
}

Result<PostResult> SimModule::post_send(const Post& post) {
  Peer* peer = peers_.find(post.peer);
  if (dead_ || peer == nullptr || !peer->takes(post)) return Errc::kConnectionLost;
  const ConnectionEnd before = peer->end();
  Result<PostResult> result = peer->post_send(post, false);
  settle(*peer, before);
  return result;
}

Result<PostResult> SimModule::post_send_unexpected(const Post& post) {
  Peer* peer = peers_.find(post.peer);
  if (dead_ || peer == nullptr || !peer->takes(post)) return Errc::kConnectionLost;
  const ConnectionEnd before = peer->end();
  Result<PostResult> result = peer->post_send(post, true);
  settle(*peer, before);
  return result;
}

Result<PostResult> SimModule::post_recv(const Post& post) {
  Peer* peer = peers_.find(post.peer);
  if (dead_ || peer == nullptr || !peer->takes(post)) return Errc::kConnectionLost;
  const ConnectionEnd before = peer->end();
  Result<PostResult> result = peer->post_recv(post);
  settle(*peer, before);
  return result;
}

void SimModule::cancel(PeerId peer, OpId op) {
  Peer* known = peers_.find(peer);
  if (known == nullptr) return;
  const ConnectionEnd before = known->end();
  known->cancel(op);
  track(*known, before);
  flush();
}

void SimModule::consumed(PeerId peer, std::uint64_t charge) {
  if (Peer* known = peers_.find(peer)) known->consumed(charge);
}

Result<void> SimModule::pass_descriptor(PeerId peer, Tag tag, int fd) {
  const Peer* known = peers_.find(peer);
  if (dead_ || known == nullptr || !known->state().connected) return Error(Errc::kConnectionLost, "pass a descriptor");
  if (!known->state().takes_descriptors) return Error(Errc::kNotSupported, "pass a descriptor");
  return fabric_.pass_descriptor(known->end(), tag, fd);
}

Result<UniqueFd> SimModule::take_descriptor(PeerId peer, Tag tag) {
  Peer* known = peers_.find(peer);
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
  peers_.clear_ends();
  peers_.for_each([](Peer& peer) { peer.lose(Errc::kConnectionLost); });
  flush();
}

Peer& SimModule::inbound_from(const Hello& from) {
  if (Peer* const known = peers_.admitted(from)) return *known;
  Peer& peer = add_inbound(from);
  peers_.admit(peer);
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
  Peer* peer = peers_.find(id);
  if (peer == nullptr || !peer->unauthenticated() || peer->end().connection == 0) return;
  fabric_.mutable_statistics().unauthenticated_dropped += 1;
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
  Peer* peer = peers_.find(id);
  if (peer == nullptr || !peer->unauthenticated() || peer->end().connection == 0) return;
  peer->admit();
  unauthenticated_peers_.remove(id);
  Peer* const old = peers_.admit(*peer);  // the same process, before it came back
  if (old == nullptr || old->end().connection == 0) return;
  const ConnectionEnd before = old->end();
  old->drop(Errc::kConnectionLost);
  track(*old, before);
  flush();
}

Peer& SimModule::add_inbound(const Hello& from) {
  const PeerId id = peers_.next_id();
  const Address address = host_.sink->inbound(id, context_);
  auto peer = std::make_unique<Peer>(host_, id, address, std::nullopt);
  peer->set_origin(from);
  return peers_.add(std::move(peer));
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
  if (Peer* peer = peers_.at(end)) {
    peer->connected(end, from);
    track(*peer, end);
  }
  flush();
}

void SimModule::connect_failed(ConnectionEnd end) {
  if (Peer* peer = peers_.at(end)) {
    peer->lose(Errc::kUnreachable);
    track(*peer, end);
  }
  flush();
}

void SimModule::lost(ConnectionEnd end) {
  if (Peer* peer = peers_.at(end)) {
    peer->lose(Errc::kConnectionLost);
    track(*peer, end);
  }
  forget_the_oldest();
  flush();
}

void SimModule::received(ConnectionEnd end, Packet packet) {
  if (Peer* peer = peers_.at(end)) {
    if (peer->unauthenticated() && packet.kind == Packet::Kind::kUnexpected) unauthenticated_peers_.asked(peer->id());
    peer->received(std::move(packet));
    track(*peer, end);
  }
  forget_the_oldest();
  flush();
}

void SimModule::descriptor(ConnectionEnd end, Tag tag, int fd) {
  if (Peer* peer = peers_.at(end)) peer->descriptor(tag, fd);
}

void SimModule::left(ConnectionEnd end, std::uint64_t token) {
  if (Peer* peer = peers_.at(end)) {
    peer->left(token);
    track(*peer, end);
  }
  flush();
}

void SimModule::delivered(ConnectionEnd end, std::uint64_t transfer) {
  if (Peer* peer = peers_.at(end)) {
    peer->delivered(transfer);
    track(*peer, end);
  }
  flush();
}

void SimModule::forget_the_oldest() {
  while (peers_.gone() > kRemembered) {
    flush();  // the peer's operations complete before
    if (peers_.gone() <= kRemembered) return;
    std::unique_ptr<Peer> peer = peers_.forget_the_oldest();
    const PeerId id = peer->id();
    const Address address = peer->address();
    peer.reset();
    host_.sink->forgotten(id, address);
  }
}

std::unique_ptr<Module> attach(Fabric& fabric, std::uint32_t node, std::uint32_t path) {
  return std::make_unique<SimModule>(fabric, NetworkInterface{node, path});
}

}  // namespace spate::bmi::sim
