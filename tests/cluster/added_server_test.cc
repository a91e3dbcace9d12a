// SPDX-License-Identifier: Apache-2.0
// An io server joins a file system while clients work, and no process is restarted. Clients use the map that they read
// at their start until they learn of a newer one.
#include <gmock/gmock.h>

#include <vector>

#include "base/expect.h"
#include "client/space.h"
#include "tests/cluster/calls.h"
#include "tests/cluster/io_service_access.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;

/// Waits until the meta server places files on the new server, and that server admits clients.
void wait_until_joined(World& world, ServerId server) {
  const MonoTime limit = world.now() + std::chrono::minutes(5);
  const auto joined = [&] {
    ServerProcess* const meta = world.server(kMetaServer);
    return meta != nullptr && meta->meta()->core().membership().map().find_server(server) != nullptr &&
           io::IoServiceTestAccess::lets_clients_in(*world.server(server)->io());
  };
  while (!joined() && world.turn(limit)) {
  }
  SPATE_CHECK(joined());
}

std::uint64_t map_version(World& world) { return world.server(kMetaServer)->meta()->core().membership().map().version; }

class AddedServer : public ::testing::Test {
 protected:
  AddedServer() : world_(options_), client_(world_.start_client()), other_(world_.start_client()) {}

  void add_server() {
    added_ = world_.add_io_server(options_);
    wait_until_joined(world_, added_);
  }
  void restart(ServerId server, Death death) {
    world_.kill_server(server, death);
    world_.start_server(server);
  }
  std::unique_ptr<client::File> create(ClientProcess& by, const std::string& name) {
    auto made = call(world_, by, by.client().create(client::path_from_root(name), kReadWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  Errc write(ClientProcess& by, client::File& file, const Bytes& data) {
    return call(world_, by, file.write(0, data)).code();
  }
  Bytes read(ClientProcess& by, client::File& file, std::size_t size) {
    Bytes memory(size);
    const auto got = call(world_, by, file.read(0, memory));
    EXPECT_OK(got);
    memory.resize(got ? *got : 0);
    return memory;
  }
  bool uses_added(const client::File& file) const {
    return std::any_of(file.layout().slots.begin(), file.layout().slots.end(),
                       [this](const Slot& slot) { return server_of(slot.targets.front()) == added_; });
  }

  WorldOptions options_;
  World world_;
  ClientProcess& client_;
  ClientProcess& other_;
  ServerId added_;
  const Bytes data_ = Bytes(100'000, std::byte{7});
};

TEST_F(AddedServer, IsUsedByClientsThatRanBefore) {
  const auto before = create(client_, "before");
  ASSERT_NE(before, nullptr);
  ASSERT_EQ(write(client_, *before, data_), Errc::kOk);
  add_server();

  const auto after = create(client_, "after");
  ASSERT_NE(after, nullptr);
  ASSERT_TRUE(uses_added(*after));
  EXPECT_EQ(write(client_, *after, data_), Errc::kOk);
  EXPECT_OK(call(world_, client_, after->sync()));
  EXPECT_EQ(read(client_, *after, data_.size()), data_);
  EXPECT_EQ(read(client_, *before, data_.size()), data_);
}

TEST_F(AddedServer, AFileOnItIsReadableByClientsThatNeverWroteThere) {
  ASSERT_NE(create(other_, "early"), nullptr);  // its session begins before the server is added
  add_server();
  const auto file = create(client_, "after");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(write(client_, *file, data_), Errc::kOk);

  const auto found = call(world_, other_, other_.client().stat(client::path_from_root("after")));
  ASSERT_OK(found);
  EXPECT_EQ(found->attributes.size, data_.size());
  auto opened = call(world_, other_, other_.client().open(client::path_from_root("after"), wire::kOpenRead));
  ASSERT_OK(opened);
  EXPECT_EQ(read(other_, **opened, data_.size()), data_);
}

TEST_F(AddedServer, WaitsForAMetaServerThatIsDownWhenItsMapIsAskedFor) {
  add_server();
  const auto file = create(client_, "after");
  ASSERT_NE(file, nullptr);
  world_.kill_server(kMetaServer, Death::kProcess);
  world_.at(world_.now() + std::chrono::seconds(2), [this] { world_.start_server(kMetaServer); });
  EXPECT_EQ(write(client_, *file, data_), Errc::kOk);
}

TEST_F(AddedServer, IsKnownToAMetaServerThatIsStartedAgain) {
  const std::uint64_t before = map_version(world_);
  add_server();
  EXPECT_GT(map_version(world_), before);
  const std::uint64_t then = map_version(world_);
  restart(kMetaServer, Death::kMachine);
  const auto file = create(client_, "after");
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(uses_added(*file));
  EXPECT_EQ(map_version(world_), then);
  EXPECT_EQ(write(client_, *file, data_), Errc::kOk);
}

TEST_F(AddedServer, IsAddedOnceItsMetaServerIsBack) {
  world_.kill_server(kMetaServer, Death::kProcess);
  added_ = world_.add_io_server(options_);
  world_.run_for(std::chrono::seconds(2));
  EXPECT_FALSE(io::IoServiceTestAccess::lets_clients_in(*world_.server(added_)->io()));
  world_.start_server(kMetaServer);
  wait_until_joined(world_, added_);
  const auto file = create(client_, "after");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(write(client_, *file, data_), Errc::kOk);
}

TEST_F(AddedServer, KeepsItsFilesWhenItIsStartedAgainWithoutItsMetaServer) {
  add_server();
  const auto file = create(client_, "after");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(write(client_, *file, data_), Errc::kOk);
  ASSERT_OK(call(world_, client_, file->sync()));
  world_.kill_server(kMetaServer, Death::kProcess);
  restart(added_, Death::kProcess);
  EXPECT_EQ(read(client_, *file, data_.size()), data_);
  world_.start_server(kMetaServer);
}

TEST_F(AddedServer, IsCountedByAClientThatHasNeverUsedIt) {
  ASSERT_NE(create(other_, "early"), nullptr);
  add_server();
  client::Session& session = other_.client().session();
  const auto space = call(world_, other_, client::space_use(session, session.limits(), session.limits()));
  ASSERT_OK(space);
  std::vector<ServerId> counted;
  for (const auto& server : space->servers) counted.push_back(server.server);
  EXPECT_THAT(counted, testing::Contains(added_));
}

TEST_F(AddedServer, BecomesKnownToAnIdleClient) {
  ASSERT_NE(create(other_, "early"), nullptr);
  add_server();
  world_.run_for(options_.session_lease);
  EXPECT_NE(other_.client().session().servers().map().find_server(added_), nullptr);
}

}  // namespace
}  // namespace spate::cluster
