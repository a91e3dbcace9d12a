// SPDX-License-Identifier: Apache-2.0
// Peer: connections and their loss; sending is in peer_send.cc, receiving in peer_receive.cc.
#include "bmi/sim/peer.h"

#include <algorithm>
#include <utility>

namespace spate::bmi::sim {
namespace {
// The most messages that one peer may have announced without a receive, by class. Each costs a table entry here.
constexpr std::uint64_t kAnnouncements = 4096;
constexpr std::size_t kMostDescriptors = 64;
}  // namespace

Peer::Peer(Host& host, PeerId id, Address address, std::optional<NetworkInterface> target)
    : host_(host), id_(id), address_(address), target_(target) {
  const NetworkOptions& options = *host_.options;
  // The control class is shared by two kinds of messages, so that neither can keep the other out.
  receive_credit_[kUnexpectedPool] = {options.buffered_per_peer_bytes / 2,
                                      options.max_unexpected_bytes + kMessageCharge, 0, 0};
  receive_credit_[kEagerControlPool] = {options.buffered_per_peer_bytes / 2, 0, 0, 0};
  receive_credit_[kEagerBulkPool] = {options.buffered_per_peer_bytes, 0, 0, 0};
  receive_credit_[kAnnounceControlPool] = {kAnnouncements, 1, 0, 0};
  receive_credit_[kAnnounceBulkPool] = {kAnnouncements, 1, 0, 0};
}

PeerState Peer::state() const {
  PeerState state;
  const NetworkInterface interface = target_ ? *target_ : origin_.interface;
  state.url = url_of(interface);
  if (!target_) state.url += "#" + std::to_string(origin_.instance);
  state.reached = url_of(target_ ? *target_ : host_.interface);
  state.connected = connected_;
  state.connections = connections_;
  state.same_host = host_.fabric.hosts().same_machine(interface.node, host_.interface.node);
  state.takes_descriptors = state.same_host;
  if (state.same_host) state.uid = 0;
  return state;
}

Hello Peer::hello() const {
  Hello hello;
  hello.instance = host_.instance;
  hello.peer = id_.value;
  hello.interface = host_.interface;
  for (std::size_t i = 0; i < kPools; ++i) hello.limits.at(i) = receive_credit_.at(i).limit;
  hello.max_unexpected = host_.options->max_unexpected_bytes;
  hello.unexpected_held = receive_credit_[kUnexpectedPool].held;
  return hello;
}

void Peer::connect_if_idle() {
  if (end_.connection != 0) return;
  const Duration timeout = std::chrono::milliseconds(host_.options->connect_timeout_ms);
  end_ = host_.fabric.connect(host_.interface, *target_, hello(), timeout);
}

void Peer::connected(ConnectionEnd end, const Hello& other) {
  end_ = end;
  connected_ = true;
  connections_ += 1;
  for (std::size_t i = 0; i < kPools; ++i) send_credit_.at(i) = {other.limits.at(i), 0, 0};
  send_credit_[kUnexpectedPool].largest = other.max_unexpected + kMessageCharge;
  send_credit_[kUnexpectedPool].outstanding = other.unexpected_held;
  for (std::size_t lane = 0; lane < kLanes; ++lane) pump(static_cast<Lane>(lane));
}

void Peer::descriptor(Tag tag, int fd) {
  if (outbound() && descriptors_.size() < kMostDescriptors) descriptors_.emplace_back(tag, fd);
}

Result<UniqueFd> Peer::take_descriptor(Tag tag) {
  const auto found =
      std::find_if(descriptors_.begin(), descriptors_.end(), [tag](const auto& entry) { return entry.first == tag; });
  if (found == descriptors_.end()) return Error(Errc::kNotFound, "take a descriptor");
  UniqueFd fd(found->second);
  descriptors_.erase(found);
  return fd;
}

void Peer::drop(Errc status) {
  host_.fabric.close(end_);
  lose(status);
}

void Peer::lose(Errc status) {
  end_ = {};
  connected_ = false;
  OpQueue posted;  // posting them again keeps their order
  for (const auto& [op, send] : sends_) posted.emplace(send.order, op);
  for (const auto& [op, receive] : receives_) posted.emplace(receive.order, op);
  for (const auto& [order, op] : posted) host_.outbox.push_back({op, status, 0});
  sends_.clear();
  receives_.clear();
  for (OpQueue& queue : waiting_) queue.clear();
  outgoing_.clear();
  posted_.clear();
  arrivals_.clear();
  descriptors_.clear();
  incoming_.clear();
  for (std::size_t i = 0; i < kPools; ++i) {
    // Unexpected messages are with the caller already: they count against the next connection too.
    if (i != kUnexpectedPool) receive_credit_.at(i).held = 0;
    receive_credit_.at(i).owed = 0;
  }
}

void Peer::cancel(OpId op) {
  if (sends_.contains(op)) {
    cancel_send(op);
  } else if (receives_.contains(op)) {
    cancel_receive(op);
  }
}

void Peer::consumed(std::uint64_t charge) { release(kUnexpectedPool, charge); }

/// In the pool's unit: bytes, or announcements.
std::uint64_t Peer::most_of(Pool pool) const {
  if (!stranger_) return receive_credit_.at(pool).limit;
  const StrangerLimits& share = host_.options->strangers;
  return pool == kAnnounceControlPool || pool == kAnnounceBulkPool ? share.announced : share.buffered_bytes;
}

bool Peer::hold(Pool pool, std::uint64_t amount) {
  ReceiveCredit& credit = receive_credit_.at(pool);
  return (!stranger_ || credit.held + amount <= most_of(pool)) && credit.hold(amount);
}

void Peer::release(Pool pool, std::uint64_t amount) {
  ReceiveCredit& credit = receive_credit_.at(pool);
  credit.release(amount);
  if (!connected_) {
    credit.owed = 0;  // the next connection begins with what is held then
    return;
  }
  if (credit.pressing()) transmit({});
}

void Peer::transmit(Packet packet) {
  for (std::size_t i = 0; i < kPools; ++i) packet.credits.at(i) = std::exchange(receive_credit_.at(i).owed, 0);
  host_.fabric.send(end_, std::move(packet));
}

void Peer::violation() {
  host_.fabric.mutable_statistics().violations += 1;
  drop(Errc::kConnectionLost);
}

void Peer::received(Packet packet) {
  bool credited = false;
  for (std::size_t i = 0; i < kPools; ++i) {
    send_credit_.at(i).give(packet.credits.at(i));
    credited |= packet.credits.at(i) != 0;
  }
  using enum Packet::Kind;
  // Room first: what the packet leads to may report upwards and come back to us.
  if (credited) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) pump(static_cast<Lane>(lane));
    if (!connected_) return;
  }
  switch (packet.kind) {
    case kUnexpected: return on_unexpected(packet);
    case kEager: return on_eager(packet);
    case kAnnounce: return on_announce(packet);
    case kReady: return on_ready(packet);
    case kClear: return on_clear(packet.transfer);
    case kRefuse: return on_refuse(packet.transfer);
    case kData: return on_data(packet);
    case kWithdraw: return on_withdraw(packet);
    case kCredit: return;
  }
}

}  // namespace spate::bmi::sim
