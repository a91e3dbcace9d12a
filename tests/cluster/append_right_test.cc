// SPDX-License-Identifier: Apache-2.0
// A client returns the right to append with a file's last close, while it opens the same file anew.

#include <array>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kRecord = 100;
constexpr int kRounds = 300;

/// Opens the file, appends a record, and closes the file.
job::Task<Result<void>> append_once(client::Client& client) {
  const Bytes data(kRecord, std::byte{'x'});
  SPATE_CO_TRY(auto file, co_await client.open(client::path_from_root("log"), wire::kOpenWrite));
  const std::array<ByteView, 1> memory{ByteView(data)};
  SPATE_CO_TRY(std::ignore, co_await file->append(memory));
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

TEST(AppendRightTest, IsNotHeldByTwoWhenAFileIsClosedAndOpenedAtOnce) {
  World world{WorldOptions{}};
  ClientProcess& one = world.start_client();
  ClientProcess& two = world.start_client();
  auto made = call(world, one, one.client().create(client::path_from_root("log"), wire::kOpenWrite, {}));
  ASSERT_OK(made);
  ASSERT_OK(call(world, one, (*made)->close()));
  std::uint64_t appends = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::pair<ClientProcess*, Outcome<Result<void>>>> under_way;
    for (ClientProcess* const client : {&one, &one, &two, &one, &two}) {
      under_way.emplace_back(client, begin_call(*client, append_once(client->client())));
      world.run_for(std::chrono::microseconds(world.random().below(200)));
    }
    for (auto& [client, outcome] : under_way) {
      ASSERT_OK(end_call(world, outcome));
      ++appends;
    }
    const auto found = call(world, one, one.client().stat(client::path_from_root("log")));
    ASSERT_OK(found);
    ASSERT_EQ(found->attributes.size, appends * kRecord) << "two appends went to one place in round " << round;
  }
}

job::Task<Unit> stop(client::Client& client) {
  co_await client.stop();
  co_return Unit{};
}

TEST(AppendRightTest, AClientThatGivesItBackEndsAlthoughTheMetaServerIsGone) {
  World world{WorldOptions{}};
  client::Options options = small_client_options({}, {}, {});
  options.deadline = std::chrono::hours(24);  // as on a hard mount
  ClientProcess& one = world.start_client(std::move(options));
  ClientProcess& two = world.start_client();
  auto file = call(world, one, one.client().create(client::path_from_root("log"), wire::kOpenWrite, {}));
  ASSERT_OK(file);
  const Bytes data(kRecord, std::byte{'x'});
  const std::array<ByteView, 1> memory{ByteView(data)};
  ASSERT_OK(call(world, one, (*file)->append(memory)));
  const auto pause_io_servers = [&](bool is) {
    for (const ServerId id : world.servers()) {
      if (id != kMetaServer) world.pause(id, is);
    }
  };
  // The right is recalled while it is in use, and the meta server is gone when it can be given back.
  pause_io_servers(true);
  const auto append = begin_call(one, (*file)->append(memory));
  const auto recalls = begin_call(two, append_once(two.client()));
  world.run_for(std::chrono::seconds(1));
  world.kill_server(kMetaServer, bmi::sim::Death::kProcess);
  pause_io_servers(false);
  world.run_for(std::chrono::seconds(1));
  const auto stopped = begin_call(one, stop(one.client()));
  world.run_for(std::chrono::seconds(10));
  EXPECT_TRUE(stopped->has_value()) << "the client waits for the meta server";
  EXPECT_TRUE(append->has_value()) << "the append waits for the meta server";
}

}  // namespace
}  // namespace spate::cluster
