// SPDX-License-Identifier: Apache-2.0
// Fixture of the module's tests: an instance that listens, in the test's own time, and raw peers that speak to it.
#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expect.h"
#include "base/random.h"
#include "bmi/one_module_fixture.h"
#include "bmi/tcp/raw_peer.h"
#include "bmi/tcp/tcp_module.h"

namespace spate::bmi::tcp {

class ModuleTest : public testing::Test, protected OneModule {
 protected:
  /// Builds the instance. SetUp calls it without arguments unless the test has called it before.
  void make(TcpOptions tcp_options, NetworkOptions options) {
    auto module = make_tcp_module(clock_, tcp_options);
    module_ = static_cast<TcpModule*>(module.get());
    open(std::move(module), options);
    url_ = network_->listen(listen_url_, context_).value();
  }
  void SetUp() override { make(TcpOptions(), NetworkOptions()); }

  void step() {
    keep_completions();
    std::array<UnexpectedMessage, 16> messages;
    const std::size_t m = take_unexpected_ ? network_->test_unexpected(context_, messages) : 0;
    for (std::size_t i = 0; i < m; ++i) arrived_.push_back(std::move(messages[i]));
  }
  /// Drives the instance until `until` holds. False when it has not held for a long time.
  [[nodiscard]] testing::AssertionResult drive(const std::function<bool()>& until) {
    for (int tries = 0; tries < 20'000; ++tries) {
      step();
      if (until()) return testing::AssertionSuccess();
      pollfd fd{network_->wait_descriptor(context_), POLLIN, 0};
      if (network_->prepare_to_wait(context_)) ::poll(&fd, 1, 1);
    }
    return testing::AssertionFailure() << "it never does; " << arrived_.size() << " requests arrived, " << done_.size()
                                       << " operations ended";
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

  Errc finish(OpId op) {
    return drive([&] { return done_.contains(op); }) ? done_[op].status : Errc::kTimeout;
  }

  ManualClock clock_;
  std::string listen_url_ = "tcp://127.0.0.1:0";
  TcpModule* module_ = nullptr;
  std::string url_;
  bool take_unexpected_ = true;
  std::deque<UnexpectedMessage> arrived_;
};

}  // namespace spate::bmi::tcp
