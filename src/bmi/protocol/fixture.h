// SPDX-License-Identifier: Apache-2.0
// The protocol with a scripted module. Frames go into lists, and the test decides how the other side answers.
#pragma once

#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "bmi/protocol/peer_base.h"

namespace spate::bmi::protocol {

inline constexpr auto kControl = MessageClass::kControl;
inline constexpr auto kBulk = MessageClass::kBulk;

/// A sink that keeps everything it is told.
struct Reports final : Sink {
  struct Message {
    Tag tag;
    std::uint64_t size;
  };
  Address inbound(PeerId /*peer*/, ContextId /*context*/) override { return Address(1); }
  void forgotten(PeerId /*peer*/, Address /*address*/) override {}
  void unexpected(PeerId /*peer*/, Address /*from*/, Tag tag, Buffer payload, std::uint64_t /*charge*/) override {
    messages.push_back({tag, payload.size()});
  }
  void completed(std::span<const Outcome> all) override { outcomes.insert(outcomes.end(), all.begin(), all.end()); }
  std::vector<Outcome> outcomes;
  std::vector<Message> messages;
};

class ScriptedPeer final : public PeerBase {
 public:
  explicit ScriptedPeer(ModuleState& state) : PeerBase(state, PeerId(1), 7) {}

  void push(const Header& header, Op* op) override { (op != nullptr ? payloads : frames).push_back(header); }
  void answer(const Header& header) override { frames.push_back(header); }
  bool offer(Op& /*op*/, const Header& header) override {
    if (offers) frames.push_back(header);
    return offers;
  }
  Withdrawn withdraw(Op& /*op*/, const Header* instead) override {
    if (withdraws == Withdrawn::kUnsent) payloads.pop_back();
    if (withdraws == Withdrawn::kUnsent && instead != nullptr) frames.push_back(*instead);
    return withdraws;
  }
  void flush_posted(MessageClass /*c*/) override {}
  void flush_all() override {}
  std::uint64_t fetch_credit(MessageClass /*c*/, bool sleeps) override {
    return sleeps ? std::exchange(credit_for_a_sleeper, 0) : 0;
  }
  void want(MessageClass /*c*/) override { ++wanted; }
  bool pull(Op& op) override {
    pulling = &op;
    return true;
  }
  bool stop_pull(Op& op) override {
    if (pull_stops) return true;
    op.state = OpState::kHeld;
    op.uses = 1;
    return false;
  }
  void grace(Op& /*op*/) override { ++graces; }
  void unauthenticated_asked() override { ++asked; }

  /// The only frame that was queued since the last call.
  Header only() {
    EXPECT_EQ(frames.size(), 1U);
    const Header header = frames.empty() ? Header{} : frames.back();
    frames.clear();
    return header;
  }

  std::vector<Header> frames;
  std::vector<Header> payloads;  // frames with an operation
  bool offers = false;
  bool pull_stops = true;
  Withdrawn withdraws = Withdrawn::kUnsent;
  std::uint64_t credit_for_a_sleeper = 0;
  Op* pulling = nullptr;
  int wanted = 0;
  int graces = 0;
  int asked = 0;
};

class ProtocolTest : public testing::Test {
 protected:
  ProtocolTest() {
    options.eager_limit_bytes = 1000;
    options.unauthenticated.buffered_bytes = 1000;
    state.options = &options;
    state.limits = kLimits;
    connect();
  }

  void connect() {
    peer.up(kLimits);
    peer.opened(kControl);
    peer.opened(kBulk);
  }
  Op& begin(std::uint64_t tag, std::uint64_t size, bool receive, MessageClass c = kControl, bool unexpected = false) {
    const Segment segment = Segment::of(MutableByteView(memory).first(size));
    Post post;
    post.op = OpId(++last_op);
    post.peer = peer.id;
    post.tag = Tag(tag);
    post.message_class = c;
    post.segments = SegmentList(&segment, 1);
    post.size = size;
    return state.begin_op(post, peer, receive, unexpected);
  }
  Op& receive(std::uint64_t tag, std::uint64_t size, MessageClass c = kControl) {
    Op& op = begin(tag, size, true, c);
    if (peer.post_recv(op)) end_at_once(op, op.arriving);
    return op;
  }
  Op& send(std::uint64_t tag, std::uint64_t size, MessageClass c = kControl, bool unexpected = false) {
    Op& op = begin(tag, size, false, c, unexpected);
    if (peer.post_send(op)) end_at_once(op, op.size);
    return op;
  }
  void end_at_once(Op& op, std::uint64_t size) {
    reports.outcomes.push_back(Outcome{op.id, Errc::kOk, size});
    state.release(op);
  }
  static Header header_of(FrameType type, std::uint64_t tag, std::uint64_t length, std::uint64_t id = 0,
                          MessageClass c = kControl) {
    Header header;
    header.type = type;
    header.message_class = c;
    header.tag = tag;
    header.length = length;
    header.id = id;
    return header;
  }
  testing::AssertionResult arrives(const Header& header, std::size_t bytes) {
    if (peer.receiver().take(incoming, header, ByteView(foreign).first(bytes))) {
      return testing::AssertionSuccess() << "the frame was accepted";
    }
    return testing::AssertionFailure() << "the frame was refused";
  }
  std::vector<Outcome>& ended() {
    std::unique_lock lock(mutex);
    state.outbox.deliver(lock, reports);
    return reports.outcomes;
  }

  static constexpr Limits kLimits{10'000, 1000, 2, 0};
  NetworkOptions options;
  ModuleState state;
  ScriptedPeer peer{state};
  Incoming incoming;
  Reports reports;
  std::mutex mutex;
  std::array<std::byte, 20'000> memory{};   // of all operations
  std::array<std::byte, 20'000> foreign{};  // what arrives
  std::uint64_t last_op = 0;
};

}  // namespace spate::bmi::protocol
