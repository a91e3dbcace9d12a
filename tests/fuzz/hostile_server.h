// SPDX-License-Identifier: Apache-2.0
// A server of the simulation whose replies the fuzzer's input determines.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bmi/sim/fabric.h"
#include "tests/cluster/client_process.h"
#include "tests/fuzz/proper_answers.h"

namespace spate::cluster {

/// Reads numbers from the input. After its end it yields zeros, for which the servers give proper replies.
class Script {
 public:
  explicit Script(ByteView bytes)
      : bytes_(bytes), leases_(!bytes.empty() && (static_cast<unsigned>(bytes.back()) & 1U) != 0) {}
  bool ended() const { return bytes_.empty(); }
  /// The last bit of the input: a setting that holds for the whole run.
  bool leases() const { return leases_; }
  std::uint8_t u8() {
    if (bytes_.empty()) return 0;
    const auto v = static_cast<std::uint8_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return v;
  }
  ByteView raw(std::size_t n) {
    const ByteView part = bytes_.first(std::min(n, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

 private:
  ByteView bytes_;
  const bool leases_;
};

/// One server, on a node of its own.
class HostileServer {
 public:
  HostileServer(bmi::sim::Fabric& fabric, ServerId id, Script& script) : id_(id), script_(script) {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::sim::attach(fabric, id.value));
    network_ = bmi::make_network(std::move(modules), {});
    context_ = network_->open_context();
    SPATE_CHECK(network_->listen(urls_of(id.value).front(), context_).has_value());
  }

  /// Does one step. Returns whether there was anything to do.
  bool turn() {
    std::array<bmi::Completion, 8> done;
    bool did = network_->test_context(context_, done) > 0;
    std::array<bmi::UnexpectedMessage, 4> messages;
    const std::size_t n = network_->test_unexpected(context_, messages);
    for (std::size_t i = 0; i < n; ++i) answer(messages[i]);
    return did || n > 0;
  }

 private:
  enum How : std::uint8_t { kProper, kPatched, kRawBody, kError, kNothing, kRawMessage, kDisconnect };

  void answer(const bmi::UnexpectedMessage& message) {
    const ByteView bytes = std::as_const(message.payload).view();
    wire::Reader reader(bytes);
    wire::RequestHeader header;
    reader(header);
    SPATE_CHECK(reader.decoder().ok());  // our own client has sent it
    Bytes body = proper_body(header.op, bytes.last(reader.decoder().remaining()));
    if (script_.leases() && header.id.slot != wire::RequestId::kNoSlot) {
      const Bytes event = event_of_change(++order_);
      body.insert(body.begin(), event.begin(), event.end());
    }
    // Most handshakes get a proper reply, since all other requests come after them.
    const bool handshake = header.op == wire::Op::kHello || header.op == wire::Op::kAuthenticate;
    const std::uint8_t choice = handshake && script_.u8() % 8 != 7 ? 0 : script_.u8();
    wire::ReplyHeader head;
    head.incarnation = Incarnation(1 + choice / 128);
    head.map_version = choice / 64 % 2;
    switch (static_cast<How>(choice % 8)) {
      case kPatched: patch(body); break;
      case kRawBody: body = to_bytes(script_.raw(script_.u8())); break;
      case kError:
        head.status = errc_from_wire(script_.u8());
        body.clear();
        break;
      case kNothing: return;
      case kRawMessage: return send(message, to_bytes(script_.raw(script_.u8())), bmi::MessageClass::kControl, 0);
      case kDisconnect: return network_->disconnect(message.peer);
      default: break;
    }
    if (header.op == wire::Op::kRead && choice / 8 % 4 != 3) send_bulk(message);
    Bytes reply;
    wire::encode_body(head, reply);
    reply.insert(reply.end(), body.begin(), body.end());
    send(message, std::move(reply), bmi::MessageClass::kControl, 0);
  }

  void patch(Bytes& body) {
    const std::size_t changes = script_.u8() % 4 + 1U;
    for (std::size_t i = 0; i < changes && !body.empty(); ++i) {
      const std::size_t low = script_.u8();
      const std::size_t at = (low | static_cast<std::size_t>(script_.u8()) << 8U) % body.size();
      body[at] = static_cast<std::byte>(script_.u8());
    }
    if (script_.u8() % 8 == 7) body.resize(script_.u8());
  }

  Bytes proper_body(wire::Op wanted, ByteView in) {
    Bytes out;
    wire::for_each_operation([&]<typename Request, typename Reply>(wire::Op op) {
      if (op != wanted) return;
      const auto request = asked<Request>(in);
      SPATE_CHECK(request.has_value());  // our own client has sent it
      auto reply = proper<Request, Reply>(*request);
      if constexpr (std::is_same_v<Reply, wire::HelloReply>) {
        reply.server = id_;
        if (script_.leases()) reply.features = wire::kOurFeatures & request->features;
      }
      if constexpr (std::is_same_v<Reply, wire::SessionEventsReply>) reply.events = recalls();
      wire::encode_body(reply, out);
      if constexpr (std::is_same_v<Reply, wire::HelloReply>) wire::encode_body(wire::HelloAnswer(), out);
    });
    return out;
  }

  std::vector<wire::SessionEvent> recalls() {
    std::vector<wire::SessionEvent> events(script_.u8() % 4);
    for (wire::SessionEvent& event : events) {
      const std::uint8_t choice = script_.u8();
      event_number_ += choice / 64U;
      event = {event_number_, wire::SessionEventType::kLeaseRecalled, choice % 4U + 1U};
    }
    return events;
  }

  void send_bulk(const bmi::UnexpectedMessage& message) {
    const std::size_t count = script_.u8() % 6;
    for (std::size_t i = 0; i < count; ++i) {
      send(message, Bytes(static_cast<std::size_t>(script_.u8()) * 64), bmi::MessageClass::kBulk,
           1 + script_.u8() % 3U);
    }
  }

  void send(const bmi::UnexpectedMessage& to, Bytes bytes, bmi::MessageClass c, std::uint64_t tag_offset) {
    const Bytes& kept = sent_.emplace_back(std::move(bytes));
    const bmi::Segment segment = bmi::Segment::of(ByteView(kept));
    bmi::Message message;
    message.peer = to.peer;
    message.tag = bmi::Tag(to.tag.value + tag_offset);
    message.message_class = c;
    message.segments = {&segment, 1};
    message.receiver_ready = true;
    std::ignore = network_->post_send(message, context_, nullptr);
  }

  const ServerId id_;
  Script& script_;
  std::unique_ptr<bmi::Network> network_;
  bmi::ContextId context_;
  std::uint64_t order_ = 0;
  std::uint64_t event_number_ = 0;
  std::deque<Bytes> sent_;  // the network may still use them
};

}  // namespace spate::cluster
