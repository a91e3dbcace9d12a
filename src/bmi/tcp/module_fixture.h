// SPDX-License-Identifier: Apache-2.0
// Fixture of the module's tests: an instance that listens, in the test's own time, and raw peers that speak to it.
#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expect.h"
#include "base/random.h"
#include "bmi/network.h"
#include "bmi/tcp/raw_peer.h"
#include "bmi/tcp/tcp_module.h"

namespace spate::bmi::tcp {

class ModuleTest : public testing::Test {
 protected:
  /// Builds the instance. SetUp calls it without arguments unless the test has called it before.
  void make(TcpOptions tcp_options, NetworkOptions options) {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(make_tcp_module(clock_, tcp_options));
    module_ = static_cast<TcpModule*>(modules.back().get());
    network_ = make_network(std::move(modules), options);
    context_ = network_->open_context();
    url_ = network_->listen(listen_url_, context_).value();
  }
  void SetUp() override { make(TcpOptions(), NetworkOptions()); }

  void step() {
    std::array<Completion, 16> done;
    const std::size_t n = network_->test_context(context_, done);
    for (std::size_t i = 0; i < n; ++i) done_[done[i].op] = done[i];
    std::array<UnexpectedMessage, 16> messages;
    const std::size_t m = take_unexpected_ ? network_->test_unexpected(context_, messages) : 0;
    for (std::size_t i = 0; i < m; ++i) arrived_.push_back(std::move(messages[i]));
  }
  /// Drives the instance until `until` holds. False when it has not held for a long time.
  [[nodiscard]] bool drive(const std::function<bool()>& until) {
    for (int patience = 0; patience < 20'000; ++patience) {
      step();
      if (until()) return true;
      pollfd fd{network_->wait_descriptor(context_), POLLIN, 0};
      if (network_->prepare_to_wait(context_)) ::poll(&fd, 1, 1);
    }
    return false;
  }
  /// Lets everything that is under way arrive. For tests that something does not happen.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      step();
      pollfd fd{network_->wait_descriptor(context_), POLLIN, 0};
      if (network_->prepare_to_wait(context_)) ::poll(&fd, 1, 1);
    }
  }

  RawPeer connect() {
    return RawPeer(url_, [this] { step(); });
  }
  static Hello hello() {
    static std::uint8_t next = 0;
    Hello hello;
    hello.link.fill(std::byte{++next});
    hello.limits = {1024 * 1024, 256 * 1024, 100};
    return hello;
  }
  static FrameHeader frame(FrameType type, std::uint64_t tag = 0, std::uint64_t length = 0) {
    FrameHeader header;
    header.type = type;
    header.tag = tag;
    header.length = length;
    return header;
  }
  /// Sends a hello and waits for the welcome.
  Welcome handshake(RawPeer& peer, const Hello& h) {
    peer.hello(h);
    Bytes bytes;
    EXPECT_TRUE(drive([&] {
      const Bytes more = peer.read();
      bytes.insert(bytes.end(), more.begin(), more.end());
      return bytes.size() >= kWelcomeSize;
    }));
    bytes.resize(kWelcomeSize);
    const auto welcome = decode_welcome(bytes.data());
    EXPECT_NE(welcome, std::nullopt);
    return welcome.value_or(Welcome());
  }
  /// The address of a raw peer, learnt from an unexpected message of tag 999.
  Address introduce(RawPeer& peer) {
    EXPECT_TRUE(peer.write_frame(frame(FrameType::kUnexpected, 999, 0)));
    EXPECT_TRUE(drive([&] { return !arrived_.empty() && arrived_.back().tag == Tag(999); }));
    const Address address = arrived_.back().peer;
    arrived_.pop_back();
    return address;
  }

  Message message(Address peer, std::uint64_t tag, SegmentList segments, MessageClass c = MessageClass::kControl) {
    Message m;
    m.peer = peer;
    m.tag = Tag(tag);
    m.message_class = c;
    m.segments = segments;
    return m;
  }
  OpId noted(const Result<Posted>& posted) {
    EXPECT_OK(posted);
    if (!posted) return OpId();
    if (posted->done) done_[posted->op] = posted->completion;
    return posted->op;
  }
  OpId send(Address peer, std::uint64_t tag, ByteView data, MessageClass c = MessageClass::kControl,
            bool ready = false) {
    const std::array segments{Segment::of(data)};
    Message m = message(peer, tag, segments, c);
    m.receiver_ready = ready;
    return noted(network_->post_send(m, context_, nullptr));
  }
  OpId receive(Address peer, std::uint64_t tag, MutableByteView room, MessageClass c = MessageClass::kControl) {
    const std::array segments{Segment::of(room)};
    return noted(network_->post_recv(message(peer, tag, segments, c), context_, nullptr));
  }
  Errc finish(OpId op) {
    return drive([&] { return done_.contains(op); }) ? done_[op].status : Errc::kTimeout;
  }
  bool done(OpId op) const { return done_.contains(op); }

  ManualClock clock_;
  std::string listen_url_ = "tcp://127.0.0.1:0";
  TcpModule* module_ = nullptr;
  std::unique_ptr<Network> network_;
  ContextId context_;
  std::string url_;
  bool take_unexpected_ = true;
  std::map<OpId, Completion> done_;
  std::deque<UnexpectedMessage> arrived_;
};

}  // namespace spate::bmi::tcp
