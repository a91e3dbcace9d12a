// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/receiver.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace spate::bmi::sim {
namespace {

// The most messages that one peer may have announced without a receive, by class. Each one costs a table entry here.
constexpr std::uint64_t kAnnouncements = 4096;

void scatter(const std::vector<Segment>& segments, std::uint64_t offset, ByteView data) {
  for (const Segment& segment : segments) {
    if (data.empty()) return;
    if (offset >= segment.size) {
      offset -= segment.size;
      continue;
    }
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(segment.size - offset, data.size()));
    std::memcpy(segment.memory + offset, data.data(), n);
    data = data.subspan(n);
    offset = 0;
  }
}

}  // namespace

Receiver::Receiver(Host& host, Line& line) : host_(host), line_(line) {
  const NetworkOptions& options = *host_.options;
  // Two kinds of messages share the window of the control class, so that neither kind can keep the other out.
  credit_[kUnexpectedPool] = {options.buffered_per_peer_bytes / 2, options.max_unexpected_bytes + kMessageCharge, 0, 0};
  credit_[kEagerControlPool] = {options.buffered_per_peer_bytes / 2, 0, 0, 0};
  credit_[kEagerBulkPool] = {options.buffered_per_peer_bytes, 0, 0, 0};
  credit_[kAnnounceControlPool] = {kAnnouncements, 1, 0, 0};
  credit_[kAnnounceBulkPool] = {kAnnouncements, 1, 0, 0};
}

void Receiver::describe(Hello& hello) const {
  for (std::size_t i = 0; i < kPools; ++i) hello.limits.at(i) = credit_.at(i).limit;
  hello.max_unexpected = host_.options->max_unexpected_bytes;
  hello.unexpected_held = credit_[kUnexpectedPool].held;
}

void Receiver::take_owed(Credits& credits) {
  for (std::size_t i = 0; i < kPools; ++i) credits.at(i) = std::exchange(credit_.at(i).owed, 0);
}

void Receiver::lose(OpQueue& posted) {
  for (const auto& [op, receive] : receives_) posted.emplace(receive.order, op);
  receives_.clear();
  posted_.clear();
  arrivals_.clear();
  incoming_.clear();
  for (std::size_t i = 0; i < kPools; ++i) {
    // The caller has the unexpected messages already, so they also count against the next connection.
    if (i != kUnexpectedPool) credit_.at(i).held = 0;
    credit_.at(i).owed = 0;
  }
}

/// The limit of the pool in its unit: bytes, or announcements.
std::uint64_t Receiver::most_of(Pool pool) const {
  if (!unauthenticated_) return credit_.at(pool).limit;
  const UnauthenticatedPeerLimits& share = host_.options->unauthenticated;
  return pool == kAnnounceControlPool || pool == kAnnounceBulkPool ? share.announced : share.buffered_bytes;
}

bool Receiver::hold(Pool pool, std::uint64_t amount) {
  ReceiveCredit& credit = credit_.at(pool);
  return (!unauthenticated_ || credit.held + amount <= most_of(pool)) && credit.hold(amount);
}

void Receiver::release(Pool pool, std::uint64_t amount) {
  ReceiveCredit& credit = credit_.at(pool);
  credit.release(amount);
  if (!line_.connected()) {
    credit.owed = 0;  // the next connection begins with the amount that is held then
    return;
  }
  if (credit.pressing()) line_.transmit({});
}

Result<PostResult> Receiver::post(const Post& post) {
  Receive receive;
  receive.order = line_.begin_post();
  if (receive.order == 0) return Errc::kConnectionLost;
  receive.key = {post.message_class, post.tag};
  receive.segments.assign(post.segments.begin(), post.segments.end());
  receive.size = post.size;
  receives_.emplace(post.op, std::move(receive));
  const std::size_t reported = host_.outbox.size();
  match(post.op);
  const bool done = host_.outbox.size() > reported && host_.outbox.back().status == Errc::kOk;
  if (!done || !host_.fabric.random().chance(host_.fabric.options().immediate_per_mille, 1000)) return PostResult{};
  const std::uint64_t size = host_.outbox.back().actual_size;
  host_.outbox.pop_back();
  return PostResult{true, size};
}

// Gives a receive the first message that waits for one, or puts it into the queue.
void Receiver::match(OpId op) {
  Receive& receive = receives_.at(op);
  const MatchKey key = receive.key;
  const auto it = arrivals_.find(key);
  if (it == arrivals_.end()) {
    receive.transfer = 0;
    posted_[key].emplace(receive.order, op);
    return;
  }
  const Arrival arrival = std::move(it->second.front());
  it->second.pop_front();
  if (it->second.empty()) arrivals_.erase(it);
  if (arrival.announced) {
    accept_announced(op, arrival.transfer, arrival.size);
    release(pool_of(key.first, kAnnounceControlPool), 1);
  } else {
    take_whole(op, arrival.payload);
    release(pool_of(key.first, kEagerControlPool), arrival.payload.size() + kMessageCharge);
  }
}

OpId Receiver::first_waiting(MatchKey key) const {
  const auto it = posted_.find(key);
  return it == posted_.end() ? OpId{} : it->second.begin()->second;
}

/// Removes the receive from the queue of waiting receives.
void Receiver::unqueue(const Receive& receive) {
  const auto queue = posted_.find(receive.key);
  if (queue == posted_.end()) return;
  queue->second.erase(receive.order);
  if (queue->second.empty()) posted_.erase(queue);
}

void Receiver::complete(OpId op, Errc status, std::uint64_t size) {
  const auto it = receives_.find(op);
  unqueue(it->second);
  receives_.erase(it);
  host_.outbox.push_back({op, status, status == Errc::kOk ? size : 0});
}

void Receiver::take_whole(OpId op, ByteView payload) {
  const Receive& receive = receives_.at(op);
  const bool fits = payload.size() <= receive.size;
  if (fits) scatter(receive.segments, 0, payload);
  complete(op, fits ? Errc::kOk : Errc::kMessageTooBig, payload.size());
}

void Receiver::accept_announced(OpId op, std::uint64_t transfer, std::uint64_t size) {
  Receive& receive = receives_.at(op);
  const MatchKey key = receive.key;
  Packet answer;
  std::tie(answer.message_class, answer.tag) = key;
  answer.transfer = transfer;
  if (size > receive.size) {
    answer.kind = Packet::Kind::kRefuse;
    complete(op, Errc::kMessageTooBig, 0);
  } else {
    answer.kind = Packet::Kind::kClear;
    receive.transfer = transfer;
    unqueue(receive);
    incoming_.emplace(transfer, Incoming{op, key, size, 0});
  }
  line_.transmit(std::move(answer));
}

void Receiver::cancel(OpId op) {
  const Receive& receive = receives_.at(op);
  const bool filling = receive.transfer != 0;
  if (filling) incoming_.at(receive.transfer).op = OpId{};  // the data that still come are dropped
  complete(op, Errc::kCancelled, 0);
  if (filling && host_.fabric.random().chance(host_.fabric.options().cancel_drops_per_mille, 1000))
    line_.drop(Errc::kConnectionLost);
}

bool Receiver::hold_unexpected(const Packet& packet) {
  const std::uint64_t size = packet.payload.size();
  return size <= host_.options->max_unexpected_bytes && hold(kUnexpectedPool, size + kMessageCharge);
}

void Receiver::on_eager(Packet& packet) {
  const MatchKey key{packet.message_class, packet.tag};
  const Pool pool = pool_of(packet.message_class, kEagerControlPool);
  const std::uint64_t charge = packet.payload.size() + kMessageCharge;
  if (!packet.ready && !hold(pool, charge)) return line_.violation();
  const OpId op = first_waiting(key);
  if (op) {
    take_whole(op, packet.payload);
    if (!packet.ready) release(pool, charge);
    return;
  }
  if (packet.ready) {
    host_.fabric.mutable_statistics().ready_dropped += 1;
    return;
  }
  const std::uint64_t size = packet.payload.size();
  arrivals_[key].push_back({false, std::move(packet.payload), 0, size});
}

void Receiver::on_announce(const Packet& packet) {
  const Pool pool = pool_of(packet.message_class, kAnnounceControlPool);
  const MatchKey key{packet.message_class, packet.tag};
  if (packet.transfer == 0 || packet.size == 0 || incoming_.contains(packet.transfer)) return line_.violation();
  if (!hold(pool, 1)) return line_.violation();
  if (const OpId op = first_waiting(key)) {
    accept_announced(op, packet.transfer, packet.size);
    release(pool, 1);
    return;
  }
  arrivals_[key].push_back({true, {}, packet.transfer, packet.size});
}

void Receiver::on_ready(const Packet& packet) {
  const MatchKey key{packet.message_class, packet.tag};
  if (packet.transfer == 0 || packet.size == 0 || incoming_.contains(packet.transfer)) return line_.violation();
  // Nothing is buffered, but each message costs an entry until its data have come. So their number may not exceed the
  // announcements that both classes allow and the posted receives together.
  if (incoming_.size() >= 2 * most_of(kAnnounceControlPool) + receives_.size()) return line_.violation();
  OpId op = first_waiting(key);
  if (!op) host_.fabric.mutable_statistics().ready_dropped += 1;
  if (op && packet.size > receives_.at(op).size) {
    complete(op, Errc::kMessageTooBig, 0);
    op = OpId{};
  }
  if (op) {
    Receive& receive = receives_.at(op);
    receive.transfer = packet.transfer;
    unqueue(receive);
  }
  incoming_.emplace(packet.transfer, Incoming{op, key, packet.size, 0});
}

void Receiver::on_data(const Packet& packet) {
  const auto it = incoming_.find(packet.transfer);
  if (it == incoming_.end()) return line_.violation();
  Incoming& incoming = it->second;
  const std::uint64_t size = packet.payload.size();
  if (packet.offset != incoming.received || size == 0 || size > incoming.size - incoming.received)
    return line_.violation();
  incoming.received += size;
  if (incoming.op) scatter(receives_.at(incoming.op).segments, packet.offset, packet.payload);
  if (incoming.received < incoming.size) return;
  const Incoming whole = incoming;
  incoming_.erase(it);
  if (whole.op) complete(whole.op, Errc::kOk, whole.size);
}

// The receive to which the message was promised goes back to its old place in the queue.
void Receiver::on_withdraw(const Packet& packet) {
  const MatchKey key{packet.message_class, packet.tag};
  if (const auto it = incoming_.find(packet.transfer); it != incoming_.end()) {
    if (it->second.received != 0 || it->second.key != key) return line_.violation();
    const OpId op = it->second.op;
    incoming_.erase(it);
    if (op) match(op);
    return;
  }
  const auto it = arrivals_.find(key);
  if (it == arrivals_.end()) return;  // the message was refused before
  const auto same = [&](const Arrival& a) { return a.announced && a.transfer == packet.transfer; };
  const auto found = std::find_if(it->second.begin(), it->second.end(), same);
  if (found == it->second.end()) return;
  it->second.erase(found);
  if (it->second.empty()) arrivals_.erase(it);
  release(pool_of(packet.message_class, kAnnounceControlPool), 1);
}

}  // namespace spate::bmi::sim
