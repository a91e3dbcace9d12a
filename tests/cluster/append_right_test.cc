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

}  // namespace
}  // namespace spate::cluster
