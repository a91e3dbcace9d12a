// SPDX-License-Identifier: Apache-2.0
// Time and packets; connections are in fabric_connect.cc, faults in fabric_faults.cc.
#include "bmi/sim/fabric.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checksum.h"

namespace spate::bmi::sim {
namespace {

constexpr std::uint64_t kHeaderBytes = 64;  // guess: size of the headers on a wire

}  // namespace

StreamKey stream_of(const Packet& packet) {
  if (packet.kind == Packet::Kind::kUnexpected) return {0, 0};
  if (packet.kind == Packet::Kind::kCredit) return {3, 0};
  return {static_cast<std::uint8_t>(packet.message_class == MessageClass::kControl ? 1 : 2), packet.tag.value};
}

Fabric::Fabric(ManualClock& clock, Random& random, FabricOptions options)
    : clock_(clock), random_(random), options_(options), links_(clock, random, events_, options.link, options.nic) {
  SPATE_CHECK(options_.chunk_bytes >= 1 && options_.window >= 1);
}

Fabric::~Fabric() { SPATE_CHECK(endpoints_.empty()); }

bool Fabric::deliver_next() {
  if (events_.empty()) return false;
  const MonoTime when = events_.next_time();
  if (when > clock_.now()) clock_.set(when);
  EventQueue::Action action = events_.take();
  action();
  return true;
}

void Fabric::run_until(MonoTime when) {
  while (!events_.empty() && events_.next_time() <= when) deliver_next();
  if (when > clock_.now()) clock_.set(when);
}

void Fabric::note(std::uint64_t what, std::uint64_t a, std::uint64_t b) {
  const std::array<std::uint64_t, 4> words{what, a, b, static_cast<std::uint64_t>(clock_.now().since_start.count())};
  std::array<std::byte, sizeof words> raw{};
  std::memcpy(raw.data(), words.data(), sizeof words);
  digest_ = hash64(raw, digest_);
}

Result<void> Fabric::pass_descriptor(ConnectionEnd end, Tag tag, int fd) {
  const End* from = open_end(end);
  if (from == nullptr || !hosts_.copies_descriptors()) return Error(Errc::kConnectionLost, "pass a descriptor");
  SPATE_TRY(const int copy, hosts_.copy_descriptor(from->interface.node, fd));
  if (End* to = open_end(end.other())) to->endpoint->descriptor(end.other(), tag, copy);
  return {};
}

void Fabric::send(ConnectionEnd end, Packet packet) {
  End* sender = open_end(end);
  if (sender == nullptr) return;
  const NetworkInterface from = sender->interface;
  const NetworkInterface to = find(end)->ends[1 - end.side].interface;
  const std::size_t nic_class = packet.message_class == MessageClass::kBulk ? 1 : 0;
  const std::uint64_t size = packet.payload.size() + kHeaderBytes;
  MonoTime& sending_until = nics_[from].sending_until.at(nic_class);
  sending_until = std::max(clock_.now(), sending_until) + links_.wire_time(from, size);
  if (packet.token != 0) events_.at(sending_until, [this, end, token = packet.token] { packet_left(end, token); });
  Stream& stream = sender->outgoing[stream_of(packet)];
  const PacketName name{end, stream_of(packet), stream.first + stream.queue.size(), size, nic_class};
  stream.queue.push_back({std::move(packet), false});
  links_.travel(from, to, sending_until, [this, name] { packet_arrived(name); });
}

void Fabric::packet_left(ConnectionEnd sender, std::uint64_t token) {
  if (const End* end = open_end(sender)) end->endpoint->left(sender, token);
}

// The first byte of the packet has arrived. The receiving interface takes the packet after those that came before it.
void Fabric::packet_arrived(const PacketName& name) {
  Connection* connection = find(name.sender);
  if (connection == nullptr) return;
  const NetworkInterface interface = connection->ends[1 - name.sender.side].interface;
  const Duration time = links_.wire_time(interface, name.size);
  MonoTime& until = nics_[interface].receiving_until.at(name.nic_class);
  // The packet came in while the sender was still sending, so an idle interface adds no time.
  const MonoTime began{clock_.now().since_start - time};
  until = std::max(clock_.now(), std::max(until, began) + time);
  if (until <= clock_.now()) {
    packet_ready(name);
  } else {
    events_.at(until, [this, name] { packet_ready(name); });
  }
}

void Fabric::packet_ready(const PacketName& name) {
  Connection* connection = find(name.sender);
  if (connection == nullptr) return;
  Stream& stream = connection->ends[name.sender.side].outgoing.at(name.stream);
  stream.queue.at(name.number - stream.first).arrived = true;
  // Each delivery may end the connection, so it is looked up again.
  while ((connection = find(name.sender)) != nullptr) {
    auto& outgoing = connection->ends[name.sender.side].outgoing;
    const auto it = outgoing.find(name.stream);
    if (it == outgoing.end() || !it->second.queue.front().arrived) return;
    Packet packet = std::move(it->second.queue.front().packet);
    it->second.queue.pop_front();
    it->second.first += 1;
    if (it->second.queue.empty()) outgoing.erase(it);
    deliver(name.sender.other(), std::move(packet));
  }
}

void Fabric::deliver(ConnectionEnd receiver, Packet packet) {
  End& end = find(receiver)->ends[receiver.side];
  if (!end.open) {
    // The machine was restarted and does not know this connection, so it reports that.
    if (end.vanished && endpoints_.contains(end.interface)) tell_lost(receiver.other());
    return;
  }
  statistics_.packets += 1;
  statistics_.bytes += packet.payload.size();
  note(static_cast<std::uint64_t>(packet.kind), receiver.connection * 2 + receiver.side,
       hash64(packet.payload, packet.tag.value));
  if (!end.established) establish(receiver);
  const bool data = packet.kind == Packet::Kind::kData;
  const std::uint64_t transfer = packet.transfer;
  if (End* open = open_end(receiver)) open->endpoint->received(receiver, std::move(packet));
  if (!data) return;
  if (const End* sender = open_end(receiver.other())) sender->endpoint->delivered(receiver.other(), transfer);
}

}  // namespace spate::bmi::sim
