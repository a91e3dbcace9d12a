// SPDX-License-Identifier: Apache-2.0
// An attacker without a key on the path to the right server alters, repeats and adds messages. The handshake passes,
// since address translation is allowed here. In the simulated network.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

using bmi::sim::url_of;

class WireTest : public ::testing::Test {
 protected:
  WireTest() : fabric_(clock_, random_, {}) {
    meta_ = std::make_unique<Site>(at(1), executor_, random_, 1, url_of({1, 0}));
    relay_ = std::make_unique<Relay>(only(at(2)), executor_, RelayOptions{url_of({2, 0}), meta_->url});
    client_ = victim(3);
  }
  MakeModule at(std::uint32_t node) {
    return [this, node] { return bmi::sim::attach(fabric_, node); };
  }
  std::unique_ptr<Victim> victim(std::uint32_t node) {
    auto victim = std::make_unique<Victim>(at(node), executor_, random_, wire::PeerKind::kClient,
                                           std::vector<std::string>{relay_->url()}, 1);
    victim->identity.policy.behind_nat = true;
    return victim;
  }
  /// Runs everything in virtual time until `task` has ended.
  template <typename T>
  T run(job::Task<T> task) {
    job::Gate gate(executor_);
    std::optional<T> out;
    job::spawn(gate, keep(std::move(task), out));
    while (gate.count() > 0) {
      if (executor_.step()) continue;
      const MonoTime next = executor_.next_timer();
      if (fabric_.next_event_time() <= next) {
        SPATE_CHECK(fabric_.deliver_next());
      } else {
        fabric_.run_until(next);
      }
    }
    return *std::move(out);
  }
  template <typename T>
  static job::Task<void> keep(job::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
  Errc mkdir(Victim& who, Duration timeout = std::chrono::seconds(5)) {
    rpc::CallOptions options;
    options.deadline = executor_.now() + timeout;
    return run(who.channel->call(wire::Op::kMkdir, {}, options)).code();
  }
  /// The last request that the relay has seen.
  Passing last_request() const {
    for (auto at = relay_->seen().rbegin(); at != relay_->seen().rend(); ++at) {
      if (!at->reply) return *at;
    }
    return {};
  }

  ManualClock clock_;
  SeededRandom random_{4};
  job::Executor executor_{clock_};
  bmi::sim::Fabric fabric_;
  std::unique_ptr<Site> meta_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<Victim> client_;
};

TEST_F(WireTest, UnalteredRequestsAreCarriedOut) {
  EXPECT_EQ(mkdir(*client_), Errc::kOk);
  EXPECT_EQ(meta_->deeds.made, 1);
}

TEST_F(WireTest, ARequestOfTheRelaysOwnEndsTheConnection) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  EXPECT_ERRC(run(relay_->inject(forged(wire::Op::kMkdir, kSession))), Errc::kConnectionLost);
  EXPECT_EQ(meta_->deeds.made, 1);
  // The attack has cost only the connection; the client makes a new one.
  EXPECT_EQ(mkdir(*client_), Errc::kOk);
}

TEST_F(WireTest, ARepeatedRequestIsNotCarriedOut) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  const Passing request = last_request();
  EXPECT_ERRC(run(relay_->inject(request.bytes, request.tag)), Errc::kConnectionLost);
  EXPECT_EQ(meta_->deeds.made, 1);
}

TEST_F(WireTest, ARepeatedRequestUnderAnotherTagIsNotCarriedOut) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  const Passing request = last_request();
  EXPECT_ERRC(run(relay_->inject(request.bytes, bmi::Tag(request.tag.value + 0x2000))), Errc::kConnectionLost);
  EXPECT_EQ(meta_->deeds.made, 1);
}

TEST_F(WireTest, ARepeatedHandshakeIsRefused) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  std::vector<Passing> handshake(relay_->seen().begin(), relay_->seen().begin() + 4);
  relay_->drop_target();
  EXPECT_OK(run(relay_->inject(handshake[0].bytes))) << "a hello may be said by anybody";
  const auto authenticated = run(relay_->inject(handshake[2].bytes));
  ASSERT_OK(authenticated);
  EXPECT_EQ(status_of(*authenticated), Errc::kUnauthenticated);
  EXPECT_EQ(meta_->deeds.joined, 1);
}

TEST_F(WireTest, AnAlteredRequestIsNotCarriedOut) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  const std::size_t size = last_request().bytes.size();
  for (std::size_t at = 0; at < size; ++at) {
    bool altered = false;
    const int before = meta_->deeds.made;
    relay_->on_passing = [&](Passing& passing) {
      wire::RequestHeader header;
      wire::Reader reader(passing.bytes);
      reader(header);
      if (passing.reply || header.op != wire::Op::kMkdir || std::exchange(altered, true)) return true;
      passing.bytes[at] ^= std::byte{1};
      return true;
    };
    EXPECT_EQ(mkdir(*client_), Errc::kOk) << "after a new handshake";
    EXPECT_EQ(meta_->deeds.made, before + 1) << "byte " << at;
    EXPECT_TRUE(altered) << "no request passed to alter byte " << at;
  }
}

TEST_F(WireTest, AnAlteredReplyIsRefused) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  const std::size_t size = relay_->seen().back().bytes.size();
  for (std::size_t at = 0; at < size; ++at) {
    int altered = 0;
    relay_->on_passing = [&](Passing& passing) {
      if (!passing.reply || passing.bytes.size() != size || altered++ > 0) return true;
      passing.bytes[at] ^= std::byte{1};
      return true;
    };
    const int before = meta_->deeds.made;
    EXPECT_EQ(mkdir(*client_), Errc::kOk) << "asked again";
    EXPECT_EQ(meta_->deeds.made, before + 2) << "byte " << at;
  }
}

TEST_F(WireTest, TheReplyToAnotherRequestIsRefused) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  const Bytes earlier = relay_->seen().back().bytes;
  int swapped = 0;
  relay_->on_passing = [&](Passing& passing) {
    if (passing.reply && passing.bytes.size() == earlier.size() && swapped++ == 0) passing.bytes = earlier;
    return true;
  };
  EXPECT_EQ(mkdir(*client_), Errc::kOk);
  EXPECT_EQ(meta_->deeds.made, 3) << "the second one was asked for twice: its first reply was another one's";
}

/// A server does not carry out a request of one client on the connection of another client.
TEST_F(WireTest, ConnectionsCannotBeSpliced) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  const Passing request = last_request();
  relay_->drop_target();
  const auto other = victim(4);
  ASSERT_EQ(mkdir(*other), Errc::kOk);
  const int before = meta_->deeds.made;
  EXPECT_ERRC(run(relay_->inject(request.bytes, request.tag)), Errc::kConnectionLost);
  EXPECT_EQ(meta_->deeds.made, before);
}

/// A hello that an attacker injected made version 1 forget the client's authentication. Now it ends the connection.
TEST_F(WireTest, ASecondHelloEndsTheConnection) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  const Bytes hello = relay_->seen().front().bytes;
  EXPECT_ERRC(run(relay_->inject(hello)), Errc::kConnectionLost);
  EXPECT_EQ(mkdir(*client_), Errc::kOk);
  EXPECT_EQ(meta_->deeds.joined, 2);
}

/// A process takes the address of a server that has ended. The client's next request was sealed for that server. The
/// new process gets only a hello from the client.
TEST_F(WireTest, NothingIsSentAfterAReconnectionToASquatter) {
  ASSERT_EQ(mkdir(*client_), Errc::kOk);
  relay_->drop_target();
  std::vector<wire::Op> heard;
  relay_->on_passing = [&](Passing& passing) {
    wire::RequestHeader header;
    wire::Reader reader(passing.bytes);
    reader(header);
    if (!passing.reply) heard.push_back(header.op);
    return false;  // the squatter answers nothing
  };
  relay_->drop_victim();  // so that the client must connect again
  EXPECT_NE(mkdir(*client_, std::chrono::milliseconds(500)), Errc::kOk);
  ASSERT_THAT(heard, testing::Not(testing::IsEmpty()));
  for (const wire::Op op : heard) EXPECT_EQ(op, wire::Op::kHello);
}

}  // namespace
}  // namespace spate::attacks
