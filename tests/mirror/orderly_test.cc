// SPDX-License-Identifier: Apache-2.0
// io servers that are stopped and started in order: their groups go on at once.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHandOver = 300ms;

class OrderlyTest : public ::testing::Test {
 protected:
  OrderlyTest() : client_(mirrors_.world.start_client()) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = run(client_.client().create(client::path_from_root("f"), kMirrorOpen, object));
    EXPECT_OK(made);
    file_ = *std::move(made);
    write();
    EXPECT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  }
  template <typename T>
  T run(job::Task<T> task) {
    return call(mirrors_.world, client_, std::move(task));
  }
  /// How long it takes.
  Duration write() {
    const MonoTime begin = mirrors_.world.now();
    EXPECT_OK(run(file_->write(0, data_)));
    return mirrors_.world.now() - begin;
  }
  /// The longest of the writes while a server ends.
  Duration longest_write_while_ends(ServerId server) {
    Duration longest{};
    mirrors_.world.server(server)->end_in_order();
    while (!mirrors_.world.server(server)->handed_over()) {
      longest = std::max(longest, write());
      mirrors_.world.run_for(1ms);
    }
    mirrors_.kill(server);
    for (int i = 0; i < 100; ++i) {
      longest = std::max(longest, write());
      mirrors_.world.run_for(30ms);
    }
    return longest;
  }
  std::vector<ServerId> io_servers() const { return {ServerId(2), ServerId(3), ServerId(4)}; }
  void come_back() {
    for (const ServerId server : io_servers()) {
      if (mirrors_.world.server(server) == nullptr) mirrors_.restart(server);
    }
  }
  void expect_whole() {
    ASSERT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
  }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  std::unique_ptr<client::File> file_;
  const Bytes data_ = Bytes(20'000, std::byte{5});
};

TEST_F(OrderlyTest, APrimaryThatEndsHandsOver) {
  const ServerId before = mirrors_.primary_of(*file_);
  EXPECT_LE(longest_write_while_ends(before), kHandOver);
  EXPECT_NE(mirrors_.primary_of(*file_), before);
  come_back();
  expect_whole();
}

TEST_F(OrderlyTest, ABackupThatEndsIsNotWaitedFor) {
  EXPECT_LE(longest_write_while_ends(mirrors_.backup_of(*file_)), kHandOver);
  come_back();
  expect_whole();
}

TEST_F(OrderlyTest, AllThatEndTogetherServeAtOnceWhenTheyAreBack) {
  mirrors_.end_in_order(io_servers());
  mirrors_.world.run_for(10s);
  come_back();
  EXPECT_LE(write(), 1s);
  expect_whole();
}

/// Nobody was told anything, and nobody has more than another one.
TEST_F(OrderlyTest, AllThatAreKilledTogetherServeAtOnceWhenTheyAreBack) {
  for (const ServerId server : io_servers()) mirrors_.kill(server);
  mirrors_.world.run_for(10s);
  come_back();
  EXPECT_LE(write(), 1s);
  expect_whole();
}

TEST_F(OrderlyTest, AServerEndsWithoutTheMetaServer) {
  mirrors_.kill(kMetaServer);
  const MonoTime begin = mirrors_.world.now();
  mirrors_.end_in_order(mirrors_.world.servers()[1]);
  EXPECT_LE(mirrors_.world.now() - begin, 1100ms);
  mirrors_.restart(kMetaServer);
  come_back();
  write();
  expect_whole();
}

}  // namespace
}  // namespace spate::cluster
