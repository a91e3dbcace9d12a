// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/peer.h"

#include <algorithm>
#include <utility>

namespace spate::bmi::sim {
namespace {
constexpr std::size_t kMostDescriptors = 64;
}  // namespace

Peer::Peer(Host& host, PeerId id, Address address, std::optional<NetworkInterface> target)
    : host_(host), id_(id), address_(address), target_(target), sender_(host, *this), receiver_(host, *this) {}

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
  receiver_.describe(hello);
  return hello;
}

std::uint64_t Peer::begin_post() {
  if (!outbound() && !connected_) return 0;
  if (end_.connection == 0) {
    const Duration timeout = std::chrono::milliseconds(host_.options->connect_timeout_ms);
    end_ = host_.fabric.connect(host_.interface, *target_, hello(), timeout);
  }
  return ++next_order_;
}

void Peer::connected(ConnectionEnd end, const Hello& other) {
  end_ = end;
  connected_ = true;
  connections_ += 1;
  sender_.connected(other);
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
  OpQueue posted;  // in the order in which the operations must be posted again
  sender_.lose(posted);
  receiver_.lose(posted);
  for (const auto& [order, op] : posted) host_.outbox.push_back({op, status, 0});
  descriptors_.clear();
}

void Peer::cancel(OpId op) {
  if (sender_.has(op)) {
    sender_.cancel(op);
  } else if (receiver_.has(op)) {
    receiver_.cancel(op);
  }
}

void Peer::transmit(Packet packet) {
  receiver_.take_owed(packet.credits);
  host_.fabric.send(end_, std::move(packet));
}

void Peer::violation() {
  host_.fabric.mutable_statistics().violations += 1;
  drop(Errc::kConnectionLost);
}

void Peer::received(Packet packet) {
  // Credit is taken first. The packet may cause a report to the core, which may call this peer again.
  if (sender_.give(packet.credits) && !connected_) return;
  using enum Packet::Kind;
  switch (packet.kind) {
    case kUnexpected: return on_unexpected(packet);
    case kEager: return receiver_.on_eager(packet);
    case kAnnounce: return receiver_.on_announce(packet);
    case kReady: return receiver_.on_ready(packet);
    case kClear: return sender_.on_clear(packet.transfer);
    case kRefuse: return sender_.on_refuse(packet.transfer);
    case kData: return receiver_.on_data(packet);
    case kWithdraw: return receiver_.on_withdraw(packet);
    case kCredit: return;
  }
}

void Peer::on_unexpected(const Packet& packet) {
  if (!receiver_.hold_unexpected(packet)) return violation();
  const std::uint64_t charge = packet.payload.size() + kMessageCharge;
  host_.sink->unexpected(id_, address_, packet.tag, Buffer::copy_of(packet.payload), charge);
}

}  // namespace spate::bmi::sim
