// SPDX-License-Identifier: Apache-2.0
// The meta server's machine crashes and loses what it has not synced: a file that was just made, or an open for
// reading. The clients' sessions live, so no error says that one has ended.
#include <gmock/gmock.h>

#include <optional>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::File;
using client::path_from_root;

/// A crash keeps a part of what was not synced, as the seed decides.
constexpr std::uint64_t kLossSeeds = 12;

class LostFileTest : public ::testing::Test {
 protected:
  void begin(std::uint64_t seed, bool keeps_attributes = false) {
    client_ = nullptr;
    world_.reset();
    WorldOptions options;
    options.seed = seed;
    options.meta_sync = std::chrono::seconds(10);
    world_.emplace(options);
    client::Options of_client = small_client_options({}, {}, {});
    of_client.keep_attributes = keeps_attributes;
    client_ = &world_->start_client(std::move(of_client));
  }
  template <typename T>
  T run(job::Task<T> task) {
    return call(*world_, *client_, std::move(task));
  }
  std::unique_ptr<File> create(const std::string& name) {
    auto made = run(client_->client().create(path_from_root(name), kReadWrite, {}));
    SPATE_CHECK(made.has_value());
    EXPECT_OK(run((*made)->write(0, Bytes(1000))));
    return *std::move(made);
  }
  bool is_there(const std::string& name) { return run(client_->client().stat(path_from_root(name))).has_value(); }
  void crash_meta() {
    const rpc::SessionEpoch before = client_->client().session().identity().session();
    world_->kill_server(kMetaServer, Death::kMachine);
    world_->start_server(kMetaServer);
    EXPECT_FALSE(is_there("no such name"));
    EXPECT_EQ(client_->client().session().identity().session(), before);
  }
  template <typename T>
  void expect_lost(const Result<T>& result) {
    ASSERT_ERRC(result, Errc::kLostWrite);
    EXPECT_THAT(result.error().message(), ::testing::StartsWith("the meta server has lost the file: "));
  }

  std::optional<World> world_;
  ClientProcess* client_ = nullptr;
};

TEST_F(LostFileTest, CallsThatNeedTheFileTellThatItIsLost) {
  int lost = 0;
  for (std::uint64_t seed = 1; seed <= kLossSeeds; ++seed) {
    begin(seed);
    const auto file = create("f");
    const auto closed = create("g");
    crash_meta();
    if (!is_there("g")) expect_lost(run(closed->close()));
    if (is_there("f")) continue;
    ++lost;
    expect_lost(run(file->truncate(10)));
    expect_lost(run(file->sync()));
    expect_lost(run(file->check_lost_file()));
    expect_lost(run(file->close()));
  }
  EXPECT_GT(lost, 0) << "no crash has lost the file";
}

TEST_F(LostFileTest, AFileThatWasSyncedIsNotLost) {
  for (std::uint64_t seed = 1; seed <= kLossSeeds; ++seed) {
    begin(seed);
    const auto file = create("f");
    ASSERT_OK(run(file->sync()));
    crash_meta();
    EXPECT_OK(run(file->check_lost_file()));
    EXPECT_OK(run(file->truncate(10)));
    EXPECT_OK(run(file->sync()));
    EXPECT_OK(run(file->close()));
  }
}

/// An open for reading is not durable. Its close has nothing to end, and nothing of the file is lost.
TEST_F(LostFileTest, AReaderWhoseOpenIsLostClosesWithoutAnError) {
  for (const bool writes : {false, true}) {
    for (std::uint64_t seed = 1; seed <= kLossSeeds; ++seed) {
      begin(seed);
      const auto file = create("f");
      if (!writes) ASSERT_OK(run(file->close()));
      ASSERT_OK(run(create("g")->sync()));  // makes all changes of names durable
      const auto reader = run(client_->client().open(path_from_root("f"), wire::kOpenRead));
      ASSERT_OK(reader);
      crash_meta();
      Bytes found(2000);
      EXPECT_EQ(run((*reader)->read(0, found)).value(), 1000U);
      EXPECT_OK(run((*reader)->close())) << "seed " << seed;
      if (writes) EXPECT_OK(run(file->close())) << "seed " << seed;
      const auto left = run(client_->client().stat(path_from_root("f")));
      ASSERT_OK(left);
      EXPECT_TRUE(left->attributes.size_known) << "for the server the file is still written, seed " << seed;
    }
  }
}

/// The answer to the client's own change is the first that comes after the crash.
TEST_F(LostFileTest, NamesThatWereKeptBeforeTheCrashAreNotKeptAfterIt) {
  const client::NamePath from = path_from_root("f");
  for (std::uint64_t seed = 1; seed <= kLossSeeds; ++seed) {
    begin(seed, true);
    ASSERT_OK(run(create("f")->sync()));
    ASSERT_OK(run(client_->client().stat(from)));  // the lease on the root begins here
    ASSERT_OK(run(client_->client().rename(from, path_from_root("g"))));
    ASSERT_TRUE(client_->client().kept_attributes(from).has_value()) << "seed " << seed;
    world_->kill_server(kMetaServer, Death::kMachine);
    world_->start_server(kMetaServer);
    ASSERT_OK(run(client_->client().mkdir(path_from_root("d"), {})));
    EXPECT_FALSE(client_->client().kept_attributes(from).has_value()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spate::cluster
