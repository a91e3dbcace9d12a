// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/sender.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace spate::bmi::sim {

Result<PostResult> Sender::post(const Post& post, bool unexpected) {
  Send send;
  send.order = line_.begin_post();
  if (send.order == 0) return Errc::kConnectionLost;
  send.lane = unexpected ? kUnexpectedLane : post.message_class == MessageClass::kControl ? kControlLane : kBulkLane;
  send.key = {unexpected ? MessageClass::kControl : post.message_class, post.tag};
  send.ready = post.receiver_ready && !unexpected;
  send.segments.assign(post.segments.begin(), post.segments.end());
  send.size = post.size;
  const Lane lane = send.lane;
  waiting_.at(lane).emplace(send.order, post.op);
  sends_.emplace(post.op, std::move(send));
  pump(lane);
  const auto it = sends_.find(post.op);
  const bool copied = it != sends_.end() && it->second.stage == Send::Stage::kLeaving;
  if (!copied || !host_.fabric.random().chance(host_.fabric.options().immediate_per_mille, 1000)) return PostResult{};
  sends_.erase(it);  // left() finds no operation then
  return PostResult{true, post.size};
}

void Sender::pump_all() {
  for (std::size_t lane = 0; lane < kLanes; ++lane) pump(static_cast<Lane>(lane));
}

void Sender::connected(const Hello& other) {
  for (std::size_t i = 0; i < kPools; ++i) credit_.at(i) = {other.limits.at(i), 0, 0};
  credit_[kUnexpectedPool].largest = other.max_unexpected + kMessageCharge;
  credit_[kUnexpectedPool].outstanding = other.unexpected_held;
  pump_all();
}

bool Sender::give(const Credits& credits) {
  for (std::size_t i = 0; i < kPools; ++i) credit_.at(i).give(credits.at(i));
  if (std::ranges::none_of(credits, [](std::uint64_t credit) { return credit != 0; })) return false;
  pump_all();
  return true;
}

void Sender::lose(OpQueue& posted) {
  for (const auto& [op, send] : sends_) posted.emplace(send.order, op);
  sends_.clear();
  for (OpQueue& queue : waiting_) queue.clear();
  outgoing_.clear();
}

// Messages leave in order within a lane: one that lacks credit holds back those behind it.
void Sender::pump(Lane lane) {
  OpQueue& queue = waiting_.at(lane);
  while (line_.connected() && !queue.empty()) {
    const auto [order, op] = *queue.begin();
    if (!launch(op, sends_.at(op))) return;
    queue.erase(order);
  }
}

bool Sender::launch(OpId op, Send& send) {
  const std::uint64_t charge = send.size + kMessageCharge;
  if (send.lane == kUnexpectedLane) {
    SendCredit& credit = credit_[kUnexpectedPool];
    if (charge > credit.largest) {  // the other side's limit is lower than this side's
      host_.outbox.push_back({op, Errc::kMessageTooBig, 0});
      sends_.erase(op);
      return true;
    }
    if (!credit.take(charge)) return false;
    if (!launch_whole(op, send, Packet::Kind::kUnexpected)) credit.give(charge);
    return true;
  }
  SendCredit& credit = credit_.at(pool_of(send.key.first, kEagerControlPool));
  if (send.size <= host_.options->eager_limit_bytes && (send.ready || credit.take(charge))) {
    const bool ready = send.ready;
    if (!launch_whole(op, send, Packet::Kind::kEager) && !ready) credit.give(charge);
    return true;
  }
  // An eager message without credit is announced like a large one. It must not wait behind messages of other tags.
  if (!send.ready && !credit_.at(pool_of(send.key.first, kAnnounceControlPool)).take(1)) return false;
  send.transfer = ++next_transfer_;
  outgoing_.emplace(send.transfer, op);
  Packet packet;
  packet.kind = send.ready ? Packet::Kind::kReady : Packet::Kind::kAnnounce;
  std::tie(packet.message_class, packet.tag) = send.key;
  packet.transfer = send.transfer;
  packet.size = send.size;
  send.stage = Send::Stage::kAnnounced;
  line_.transmit(std::move(packet));
  if (send.ready) start_moving(send);
  return true;
}

bool Sender::launch_whole(OpId op, Send& send, Packet::Kind kind) {
  Packet packet;
  packet.kind = kind;
  std::tie(packet.message_class, packet.tag) = send.key;
  packet.ready = send.ready;
  packet.size = send.size;
  packet.payload.resize(send.size);
  packet.token = op.value;
  send.stage = Send::Stage::kLeaving;
  if (!gather(send, 0, packet.payload)) {
    host_.outbox.push_back({op, Errc::kIoError, 0});
    sends_.erase(op);
    return false;
  }
  line_.transmit(std::move(packet));
  return true;
}

void Sender::start_moving(Send& send) {
  send.stage = Send::Stage::kMoving;
  move_on(outgoing_.at(send.transfer), send);
}

// Only one packet of a transfer waits for the interface at a time, so that transfers share it in turns.
void Sender::move_on(OpId op, Send& send) {
  const FabricOptions& options = host_.fabric.options();
  if (send.packet_queued || send.offset == send.size || send.under_way >= options.window) return;
  Packet packet;
  packet.kind = Packet::Kind::kData;
  std::tie(packet.message_class, packet.tag) = send.key;
  packet.transfer = send.transfer;
  packet.offset = send.offset;
  packet.payload.resize(std::min(options.chunk_bytes, send.size - send.offset));
  packet.token = op.value;
  if (!gather(send, send.offset, packet.payload)) {
    // The other side was promised these bytes. Only the end of the connection releases it.
    host_.outbox.push_back({op, Errc::kIoError, 0});
    sends_.erase(op);
    line_.drop(Errc::kConnectionLost);
    return;
  }
  send.offset += packet.payload.size();
  send.under_way += 1;
  send.packet_queued = true;
  line_.transmit(std::move(packet));
}

void Sender::left(std::uint64_t token) {
  const auto it = sends_.find(OpId{token});
  if (it == sends_.end()) return;
  Send& send = it->second;
  send.packet_queued = false;
  if (send.stage == Send::Stage::kMoving && send.offset < send.size) {
    move_on(it->first, send);
    return;
  }
  host_.outbox.push_back({it->first, Errc::kOk, send.size});
  outgoing_.erase(send.transfer);
  sends_.erase(it);
}

void Sender::delivered(std::uint64_t transfer) {
  const auto it = outgoing_.find(transfer);
  if (it == outgoing_.end()) return;
  Send& send = sends_.at(it->second);
  send.under_way -= 1;
  move_on(it->second, send);
}

void Sender::on_clear(std::uint64_t transfer) {
  const auto it = outgoing_.find(transfer);
  if (it == outgoing_.end()) return;  // it was cancelled, and the withdrawal has been sent
  Send& send = sends_.at(it->second);
  if (send.stage != Send::Stage::kAnnounced) return line_.violation();
  start_moving(send);
}

void Sender::on_refuse(std::uint64_t transfer) {
  const auto it = outgoing_.find(transfer);
  if (it == outgoing_.end()) return;
  if (sends_.at(it->second).stage != Send::Stage::kAnnounced) return line_.violation();
  host_.outbox.push_back({it->second, Errc::kMessageTooBig, 0});
  sends_.erase(it->second);
  outgoing_.erase(it);
}

void Sender::cancel(OpId op) {
  Send& send = sends_.at(op);
  if (send.stage == Send::Stage::kLeaving) return;  // its data were copied, so it completes when the copy has left
  const bool moving = send.stage == Send::Stage::kMoving;
  if (send.stage == Send::Stage::kWaiting) waiting_.at(send.lane).erase(send.order);
  if (send.stage == Send::Stage::kAnnounced) {
    Packet packet;
    packet.kind = Packet::Kind::kWithdraw;
    std::tie(packet.message_class, packet.tag) = send.key;
    packet.transfer = send.transfer;
    line_.transmit(std::move(packet));
  }
  outgoing_.erase(send.transfer);
  sends_.erase(op);
  host_.outbox.push_back({op, Errc::kCancelled, 0});
  if (moving) line_.drop(Errc::kConnectionLost);  // a part of the message has left
}

// Bytes after the end of a file are zeros.
bool Sender::gather(const Send& send, std::uint64_t offset, MutableByteView out) {
  std::uint64_t skip = offset;
  for (const Segment& segment : send.segments) {
    if (out.empty()) break;
    if (skip >= segment.size) {
      skip -= segment.size;
      continue;
    }
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(segment.size - skip, out.size()));
    if (segment.memory != nullptr) {
      std::memcpy(out.data(), segment.memory + skip, n);
    } else {
      std::size_t got = 0;
      while (got < n) {
        const auto read = host_.fabric.hosts().read_file(host_.interface.node, segment.fd, segment.offset + skip + got,
                                                         out.subspan(got, n - got));
        if (!read) return false;
        if (*read == 0) break;
        got += *read;
      }
      std::fill_n(out.data() + got, n - got, std::byte{0});
    }
    out = out.subspan(n);
    skip = 0;
  }
  return true;
}

}  // namespace spate::bmi::sim
