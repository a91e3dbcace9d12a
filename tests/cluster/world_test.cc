// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/world.h"

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

job::Task<void> first_steps(client::Client& client, bool& done) {
  const auto flags = static_cast<std::uint8_t>(wire::kOpenRead | wire::kOpenWrite);
  auto file = co_await client.create(client::path_from_root("a"), flags, {});
  SPATE_CHECK(file.has_value());
  const Bytes data(100'000, std::byte{7});
  auto written = co_await (*file)->write(5, data);
  SPATE_CHECK(written.has_value());
  auto synced = co_await (*file)->sync();
  SPATE_CHECK(synced.has_value());
  Bytes got(100'010);
  auto n = co_await (*file)->read(0, got);
  SPATE_CHECK(n.has_value() && *n == 100'005);
  auto closed = co_await (*file)->close();
  SPATE_CHECK(closed.has_value());
  done = true;
}

std::uint64_t run_once(std::uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  World world(options);
  bool done = false;
  ClientProcess& client = world.start_client();
  job::spawn(client.gate(), first_steps(client.client(), done));
  world.run_for(std::chrono::seconds(2));
  EXPECT_TRUE(done) << "before the server was killed";
  world.kill_server(kMetaServer, bmi::sim::Death::kMachine);
  world.run_for(std::chrono::seconds(1));
  world.start_server(kMetaServer);
  done = false;
  job::spawn(client.gate(), first_steps(client.client(), done));
  world.run_for(std::chrono::seconds(20));
  EXPECT_TRUE(done) << "after the server has come back";
  return world.fabric().digest();
}

TEST(World, AClusterServesAndRunsTheSameAgain) {
  const std::uint64_t first = run_once(3);
  EXPECT_EQ(first, run_once(3));
  EXPECT_NE(first, run_once(4));
}

TEST(World, AnFsyncAsksAllServersAtTheSameTime) {
  constexpr Duration kOneWay = std::chrono::milliseconds(20);
  World world{WorldOptions()};
  ClientProcess& client = world.start_client();
  auto file = call(world, client, client.client().create(client::path_from_root("a"), kReadWrite, {}));
  ASSERT_OK(file);
  EXPECT_OK(call(world, client, (*file)->write(0, Bytes(100'000))));
  for (const ServerId server : world.servers()) {
    world.fabric().links().set_link(client.node(), server.value, {.latency = kOneWay});
  }
  const MonoTime begun = world.now();
  EXPECT_OK(call(world, client, (*file)->sync()));
  const Duration took = world.now() - begun;
  EXPECT_GT(took, 2 * kOneWay) << "the links are not slow";
  EXPECT_LT(took, 3 * kOneWay);
}

}  // namespace
}  // namespace spate::cluster
