// SPDX-License-Identifier: Apache-2.0
// A server gets more requests than it can work on. It must not mistake a client whose requests wait for an attacker.
#include "bmi/tcp/tcp_module.h"
#include "tests/attacks/site.h"

namespace spate::attacks {
namespace {

constexpr int kRequests = 12'000;  // more than may wait, and more than the window of a connection's tags

job::Task<void> ask_one(Victim& client, int& failed) {
  rpc::CallOptions options;
  options.deadline = client.context->executor().now() + std::chrono::seconds(60);
  const auto reply = co_await client.channel->call(wire::Op::kMkdir, {}, options);
  if (!reply) ++failed;
}

/// Sends all requests at once. The ping leaves last and so arrives last; even a full server answers it.
job::Task<Result<int>> ask_all(Victim& client, job::Event& go) {
  job::Gate gate(client.context->executor());
  int failed = 0;
  for (int i = 0; i < kRequests; ++i) job::spawn(gate, ask_one(client, failed));
  rpc::CallOptions options;
  options.deadline = client.context->executor().now() + std::chrono::seconds(60);
  const auto arrived = co_await client.channel->call<wire::PingReply>(wire::PingRequest(), options);
  if (!arrived) ++failed;
  go.set();
  co_await gate.close();
  co_return failed;
}

TEST(Busy, ALongWaitIsNotMistakenForARepeatedMessage) {
  SystemClock clock;
  job::Executor executor(clock);
  SystemRandom random;
  const MakeModule make = [&clock]() -> std::unique_ptr<bmi::Module> { return bmi::tcp::make_tcp_module(clock); };
  job::Event go(executor);
  Site site(make, executor, random, 1, "tcp://127.0.0.1:0", kFs, client_key(),
            [](rpc::ServerOptions& options) { options.max_requests = 1; });
  Victim client(make, executor, random, wire::PeerKind::kClient, {site.url}, 1, std::chrono::seconds(60));
  ASSERT_EQ(client.reason(wire::Op::kMkdir), "done");
  site.deeds.hold = &go;
  const auto failed = executor.run(ask_all(client, go));
  ASSERT_OK(failed);
  EXPECT_EQ(*failed, 0);
  EXPECT_EQ(client.channel->peer_info().connection, 1U) << "the connection was lost";
}

}  // namespace
}  // namespace spate::attacks
