// SPDX-License-Identifier: Apache-2.0
// An io server joins a file system whose clients go on with the map that they have read at their start.

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;

constexpr auto kOpenReadWrite = static_cast<std::uint8_t>(wire::kOpenRead | wire::kOpenWrite);

class AddedServer : public ::testing::Test {
 protected:
  AddedServer() : world_(options_), client_(world_.start_client()), other_(world_.start_client()) {}

  /// As docs/operating.md says: the new server first, then the meta server, which is told of it.
  void add_server() {
    added_ = world_.add_io_server(options_);
    world_.kill_server(kMetaServer, Death::kProcess);
    world_.start_server(kMetaServer);
  }
  std::unique_ptr<client::File> create(ClientProcess& by, const std::string& name) {
    auto made = call(world_, by, by.client().create(client::path_from_root(name), kOpenReadWrite, {}));
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

TEST_F(AddedServer, AFileOnItHasItsSizeAndDataForWhoNeverWroteThere) {
  ASSERT_NE(create(other_, "early"), nullptr);  // its session is from before
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

}  // namespace
}  // namespace spate::cluster
