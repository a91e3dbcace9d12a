// SPDX-License-Identifier: Apache-2.0
// A client that loses its connection to an io server remembers what that server can do.
#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

constexpr ServerId kTheIoServer{2};

WorldOptions lost_connection_options() {
  WorldOptions options;
  options.io_servers = 1;
  return options;
}

class LostConnectionTest : public ::testing::Test {
 protected:
  ClientProcess& start() {
    client::Options options = small_client_options({}, {}, {});
    options.deadline = std::chrono::seconds(2);
    return world_.start_client(std::move(options));
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  std::unique_ptr<client::File> open(ClientProcess& process) {
    auto opened =
        run(process, process.client().create(client::path_from_root("f"), wire::kOpenRead | wire::kOpenWrite, {}));
    SPATE_CHECK(opened.has_value());
    return *std::move(opened);
  }
  void lose_connection(client::File& file) {
    world_.fabric().links().partition(kTheIoServer.value, client_.node(), true);
    EXPECT_ERRC(run(client_, file.stat()), Errc::kTimeout);
    world_.fabric().links().partition(kTheIoServer.value, client_.node(), false);
  }

  World world_{lost_connection_options()};
  ClientProcess& client_ = start();
};

TEST_F(LostConnectionTest, AnErrorOfWriteBackIsReportedAfterwards) {
  const std::unique_ptr<client::File> file = open(client_);
  ASSERT_OK(run(client_, file->write(0, Bytes(1000))));
  ClientProcess& other = start();
  const std::unique_ptr<client::File> others = open(other);
  ASSERT_OK(run(other, others->write(1000, Bytes(1000))));
  for (auto& disk : world_.disks(kTheIoServer).targets)
    disk->faults().inject(trove::BytestreamOp::kSync, 1, Errc::kIoError);
  EXPECT_ERRC(run(other, others->sync()), Errc::kLostWrite);
  lose_connection(*file);
  EXPECT_ERRC(run(client_, file->sync()), Errc::kLostWrite);
}

}  // namespace
}  // namespace spate::cluster
