// SPDX-License-Identifier: Apache-2.0
// Fixture of the module's tests: an instance that listens, in the test's own time, and peers that speak to it.
#pragma once

#include <poll.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/expect.h"
#include "bmi/one_module_fixture.h"
#include "bmi/shm/raw_peer.h"
#include "bmi/shm/shm_module.h"

namespace spate::bmi::shm {

/// An instance with one context, and what it has seen.
class Instance : public OneModule {
 public:
  Instance(const Clock& clock, ShmOptions shm, const NetworkOptions& options = {}) {
    auto module = make_shm_module(clock, std::move(shm));
    module_ = static_cast<ShmModule*>(module.get());
    open(std::move(module), options);
  }

  Network* operator->() const { return network_.get(); }
  ContextId context() const { return context_; }
  ShmCounters counters() const { return module_->counters(); }
  std::string listen(const std::string& url = "shm://*") { return network_->listen(url, context_).value(); }
  Address lookup(const std::string& url) { return network_->lookup(std::array{url}).value(); }

  void step() {
    keep_completions();
    std::array<UnexpectedMessage, 16> messages;
    const std::size_t m = network_->test_unexpected(context_, messages);
    for (std::size_t i = 0; i < m; ++i) arrived.push_back(std::move(messages[i]));
  }
  void nap(int most_ms) {
    if (!network_->prepare_to_wait(context_)) return;
    pollfd fd{network_->wait_descriptor(context_), POLLIN, 0};
    ::poll(&fd, 1, most_ms);
  }

  OpId request(Address peer, std::uint64_t tag, ByteView data = {}) {
    const std::array segments{Segment::of(data)};
    return noted(
        network_->post_send_unexpected(message(peer, tag, segments, MessageClass::kControl), context_, nullptr));
  }
  Completion completion(OpId op) const { return done_.at(op); }

  std::deque<UnexpectedMessage> arrived;

 private:
  ShmModule* module_ = nullptr;
};

class ModuleTest : public testing::Test {
 protected:
  void SetUp() override { make({}); }
  void make(ShmOptions shm, const NetworkOptions& options = {}) {
    instances_.clear();
    server_ = &start(std::move(shm), options);
    url_ = server_->listen();
  }
  Instance& start(ShmOptions shm = {}, const NetworkOptions& options = {}) {
    instances_.push_back(std::make_unique<Instance>(clock_, std::move(shm), options));
    return *instances_.back();
  }
  void step() {
    for (const auto& instance : instances_) instance->step();
  }
  /// Drives all instances until `until` holds. False when it has not held for a long time.
  [[nodiscard]] testing::AssertionResult drive(const std::function<bool()>& until) {
    for (int tries = 0; tries < 20'000; ++tries) {
      step();
      if (until()) return testing::AssertionSuccess();
      for (const auto& instance : instances_) instance->nap(instances_.size() == 1 ? 1 : 0);
    }
    return testing::AssertionFailure() << "it never does; " << server_->arrived.size() << " requests arrived";
  }
  /// Lets everything that is under way arrive. For tests that something does not happen.
  void settle() {
    for (int i = 0; i < 30; ++i) {
      step();
      for (const auto& instance : instances_) instance->nap(1);
    }
  }
  Errc finish(Instance& instance, OpId op) {
    return drive([&] { return instance.done(op); }) ? instance.completion(op).status : Errc::kTimeout;
  }
  /// The client's address at the server, learnt from a request that this sends.
  Address introduce(Instance& client, Address to_server) {
    client.request(to_server, 999);
    EXPECT_TRUE(drive([&] { return !server_->arrived.empty() && server_->arrived.back().tag == Tag(999); }));
    const Address address = server_->arrived.back().peer;
    server_->arrived.pop_back();
    return address;
  }
  /// Sends a hello, waits for the welcome, and maps its segment.
  Welcome handshake(RawPeer& peer, const Hello& hello = RawPeer::hello()) {
    peer.send_hello(hello);
    Bytes bytes;
    EXPECT_TRUE(drive([&] { return !(bytes = peer.read()).empty(); }));
    const auto welcome = decode_welcome(bytes);
    EXPECT_NE(welcome, std::nullopt);
    if (!welcome) return {};
    if (welcome->status == Errc::kOk) peer.map(*welcome);
    return *welcome;
  }
  /// The address of a raw peer, learnt from an unexpected message.
  Address introduce(RawPeer& peer) {
    peer.write(frame(FrameType::kUnexpected, 998, 0));
    EXPECT_TRUE(drive([&] { return !server_->arrived.empty() && server_->arrived.back().tag == Tag(998); }));
    const Address address = server_->arrived.back().peer;
    server_->arrived.pop_back();
    return address;
  }

  ManualClock clock_;
  std::vector<std::unique_ptr<Instance>> instances_;
  Instance* server_ = nullptr;
  std::string url_;
};

}  // namespace spate::bmi::shm
