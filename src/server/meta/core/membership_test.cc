// SPDX-License-Identifier: Apache-2.0
// Servers that join while the meta server runs, and what a restarted meta server knows of them.
#include "server/meta/core/membership.h"

#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

ServerEntry new_server(std::uint32_t id, std::size_t targets = 1) {
  ServerEntry server;
  server.id = ServerId(id);
  server.urls = {"shm:///run/spate/x", "tcp://io" + std::to_string(id) + ":7400"};
  server.roles = {false, true};
  for (std::size_t i = 0; i < targets; ++i) server.targets.push_back(target_id(server.id, i));
  return server;
}

class MembershipTest : public ::testing::Test {
 protected:
  Membership& members() { return fs_.core->membership(); }
  Result<void> join(ServerEntry server) { return fs_.run(members().join(std::move(server), {})); }
  ServerId reserved() {
    const auto id = fs_.run(members().reserve({}));
    EXPECT_OK(id);
    return id ? *id : ServerId();
  }
  bool knows(std::uint32_t id) { return members().map().find_server(ServerId(id)) != nullptr; }
  void restart(MetaOptions options = test_options()) {
    fs_.crash();
    fs_.open(std::move(options));
    ASSERT_OK(fs_.started);
  }
  /// spate.toml without its last server.
  static MetaOptions without_last() {
    MetaOptions options = test_options();
    options.map.servers.pop_back();
    return options;
  }
  TestFs fs_;
};

TEST_F(MembershipTest, AServerThatJoinsGetsFilesAtOnce) {
  const std::uint64_t before = members().map().version;
  ASSERT_OK(join(new_server(7, 2)));
  EXPECT_EQ(members().map().version, before + 1);
  EXPECT_EQ(members().targets(), members().map().targets_in_turn());
  EXPECT_EQ(members().targets().size(), 6U);
  ASSERT_NE(fs_.fakes.io.added.size(), 0U);
  EXPECT_EQ(fs_.fakes.io.added.back().id, ServerId(7));
}

TEST_F(MembershipTest, ListenersGetEachVersion) {
  std::vector<std::uint64_t> heard;
  members().on_change([&heard](std::uint64_t version) { heard.push_back(version); });
  ASSERT_OK(join(new_server(7)));
  ASSERT_OK(join(new_server(7)));
  ASSERT_OK(join(new_server(8)));
  EXPECT_EQ(heard, (std::vector<std::uint64_t>{2, 3}));
}

TEST_F(MembershipTest, AServerOfTheMapJoinsAgainWithoutAChange) {
  const std::size_t commits = fs_.store.commits;
  ASSERT_OK(join(test_map().servers.back()));
  EXPECT_EQ(members().map().version, 1U);
  EXPECT_EQ(fs_.store.commits, commits);
}

TEST_F(MembershipTest, IsDurableBeforeItIsUsed) {
  fs_.store.on_commit = [] { return Errc::kIoError; };
  EXPECT_ERRC(join(new_server(7)), Errc::kIoError);
  EXPECT_FALSE(knows(7));
  EXPECT_EQ(members().map().version, 1U);
  fs_.store.on_commit = {};
  ASSERT_OK(join(new_server(7)));
  restart();
  EXPECT_TRUE(knows(7));
  EXPECT_EQ(members().map().version, 2U);
  EXPECT_EQ(members().targets().size(), 5U);
}

TEST_F(MembershipTest, TargetsAreAddedAndNeverTakenAway) {
  ASSERT_OK(join(new_server(7, 2)));
  ASSERT_OK(join(new_server(7, 1)));
  EXPECT_EQ(members().map().find_server(ServerId(7))->targets.size(), 2U);
  ServerEntry named = test_map().servers.back();
  named.targets.push_back(target_id(named.id, 1));
  ASSERT_OK(join(named));
  restart();
  EXPECT_EQ(members().map().find_server(named.id)->targets.size(), 2U);
}

TEST_F(MembershipTest, AServerRemovedFromSpateTomlLeavesTheMapUnlessItJoinedByItself) {
  ASSERT_OK(join(new_server(7)));
  restart(without_last());
  EXPECT_FALSE(knows(4));
  EXPECT_TRUE(knows(7));
  EXPECT_EQ(members().map().version, 3U);
  restart(without_last());
  EXPECT_EQ(members().map().version, 3U);
}

TEST_F(MembershipTest, TheAddressInSpateTomlWins) {
  ASSERT_OK(join(new_server(7)));
  MetaOptions options = test_options();
  ServerEntry moved = new_server(7);
  moved.urls = {"tcp://elsewhere:7400"};
  options.map.servers.push_back(moved);
  restart(options);
  EXPECT_EQ(members().map().find_server(ServerId(7))->urls, moved.urls);
  EXPECT_EQ(members().map().version, 3U);
}

TEST_F(MembershipTest, RefusesAnotherServersNumberAndAddress) {
  ASSERT_OK(join(new_server(7)));
  ServerEntry twin = new_server(7);
  twin.urls = {"tcp://twin:7400"};
  EXPECT_ERRC(join(twin), Errc::kExists);
  ServerEntry intruder = new_server(8);
  intruder.urls = new_server(7).urls;
  EXPECT_ERRC(join(intruder), Errc::kExists);
  EXPECT_FALSE(knows(8));
}

TEST_F(MembershipTest, RefusesInvalidServers) {
  ServerEntry server = new_server(7);
  server.targets = {target_id(ServerId(6), 0)};
  EXPECT_ERRC(join(server), Errc::kInvalidArgument);
  server.targets.clear();
  EXPECT_ERRC(join(server), Errc::kInvalidArgument);
  server = new_server(7);
  server.urls.clear();
  EXPECT_ERRC(join(server), Errc::kInvalidArgument);
  server.urls = {std::string(kMaxUrlBytes + 1, 'u')};
  EXPECT_ERRC(join(server), Errc::kInvalidArgument);
  EXPECT_ERRC(join(new_server(kMaxServerId + 1)), Errc::kInvalidArgument);
  EXPECT_EQ(members().map().version, 1U);
}

TEST_F(MembershipTest, NumbersAreGivenOutOnce) {
  EXPECT_EQ(reserved(), ServerId(5));
  EXPECT_EQ(reserved(), ServerId(6));
  restart();
  EXPECT_EQ(reserved(), ServerId(7));
  ASSERT_OK(join(new_server(20)));
  EXPECT_EQ(reserved(), ServerId(21));
}

}  // namespace
}  // namespace spate::meta
