// SPDX-License-Identifier: Apache-2.0
// An attacker without a key overhears the traffic between a client and a server, and tries to get the client's bulk
// data.
#include "bmi/tcp/raw_peer.h"
#include "bmi/tcp/tcp_module.h"
#include "tests/attacks/site.h"
#include "tests/attacks/tap.h"

namespace spate::attacks {
namespace {

using bmi::tcp::Hello;
using bmi::tcp::RawPeer;

class BulkTest : public ::testing::Test {
 protected:
  /// Waits until the condition holds, at most about 5 s. The server's module works meanwhile. False: it does not hold.
  [[nodiscard]] bool drive(const std::function<bool()>& until) {
    const auto nap = [](job::Executor& executor) -> job::Task<Result<void>> {
      auto slept = co_await executor.sleep(std::chrono::milliseconds(1), {});
      co_return slept;
    };
    for (int tries = 0; tries < 5000; ++tries) {
      if (until()) return true;
      std::ignore = executor_.run(nap(executor_));
    }
    return false;
  }
  /// Whether the server ends a connection that begins with this hello and with zeros in place of a proof.
  bool refuses(const Hello& hello) {
    RawPeer thief(site_.url, {});
    thief.hello(hello);
    EXPECT_TRUE(thief.write(Bytes(sizeof(bmi::tcp::LinkProof)))) << "the server has ended the connection already";
    return drive([&] { return thief.ended(); });
  }

  SystemClock clock_;
  job::Executor executor_{clock_};
  SystemRandom random_;
  MakeModule make_ = [this]() -> std::unique_ptr<bmi::Module> { return bmi::tcp::make_tcp_module(clock_); };
  Site site_{make_, executor_, random_, 1};
};

TEST_F(BulkTest, AnEavesdropperOfTheControlConnectionGetsNoBulkConnection) {
  Tap tap(site_.url);
  Victim client(make_, executor_, random_, wire::PeerKind::kClient, {tap.url()}, 1);
  client.identity.policy.behind_nat = true;  // the tap changes the address, which must not matter here
  ASSERT_EQ(client.reason(wire::Op::kMkdir), "done");
  const Bytes asked = tap.seen(0, true);
  const Bytes answered = tap.seen(0, false);
  ASSERT_GE(asked.size(), bmi::tcp::kHelloSize);
  ASSERT_GE(answered.size(), bmi::tcp::kWelcomeSize);
  Hello hello = *bmi::tcp::decode_hello(asked.data());
  hello.channel = 1;
  hello.token = bmi::tcp::decode_welcome(answered.data())->token;
  for (const std::uint16_t version : {std::uint16_t{1}, std::uint16_t{2}}) {
    hello.versions.min = hello.versions.max = version;
    hello.limits = {};
    EXPECT_TRUE(refuses(hello)) << "version " << version;
  }
}

}  // namespace
}  // namespace spate::attacks
