// SPDX-License-Identifier: Apache-2.0
// A server takes the place of a member that stays away only if it has room for the copy.
#include "tests/mirror/replacement_fixture.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kFull = 64 * 1024;  // bytes of a disk that cannot hold the copy
constexpr std::uint64_t kLarge = 1U << 30U;

class RoomTest : public ReplacementTest {
 protected:
  std::vector<ServerId> others() {
    std::vector<ServerId> servers;
    for (const ServerId server : world().servers()) {
      if (server != kMetaServer && !is_member(server)) servers.push_back(server);
    }
    return servers;
  }
  void set_capacity(ServerId server, std::size_t disk, std::uint64_t bytes) {
    world().disks(server).targets.at(disk)->set_capacity(bytes);
  }
  std::size_t without_room() {
    return io::IoServiceTestAccess::groups_without_room(*world().server(mirrors_->primary_of(*file_))->io());
  }
};

/// Each server in turn is the full one, so that the one that would be chosen otherwise is among them.
TEST_F(RoomTest, AServerWithoutRoomIsPassedOver) {
  for (std::size_t full = 0; full < 2; ++full) {
    begin(options_of(4));
    set_capacity(others().at(full), 0, kFull);
    const ServerId dead = mirrors_->backup_of(*file_);
    kill(dead);
    ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
    expect_content();
  }
}

TEST_F(RoomTest, AnotherDeviceOfTheServerIsTaken) {
  WorldOptions options = options_of(3);
  options.doubled = 3;
  for (std::size_t full = 0; full < 2; ++full) {
    begin(options);
    set_capacity(others().front(), full, kFull);
    const ServerId dead = mirrors_->backup_of(*file_);
    kill(dead);
    ASSERT_TRUE(is_replaced(dead)) << "nobody has taken its place";
    expect_content();
  }
}

TEST_F(RoomTest, WithoutRoomAnywhereTheMemberKeepsItsPlaceAndThatIsShown) {
  begin(options_of(3));
  const ServerId only = others().front();
  set_capacity(only, 0, kFull);
  if (world().disks(only).targets.size() > 1) set_capacity(only, 1, kFull);
  const ServerId dead = mirrors_->backup_of(*file_);
  kill(dead);
  world().run_for(kAfter + 30s);
  EXPECT_TRUE(is_member(dead)) << "it was replaced although nobody has room";
  EXPECT_GE(without_room(), 1U);
  set_capacity(only, 0, kLarge);
  ASSERT_TRUE(is_replaced(dead, 60s)) << "nobody takes its place although there is room now";
  world().run_for(1s);
  EXPECT_EQ(without_room(), 0U);
  expect_content();
}

}  // namespace
}  // namespace spate::cluster
