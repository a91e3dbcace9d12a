// SPDX-License-Identifier: Apache-2.0
// The times that clients give for their changes.
#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

constexpr Duration kBelieved = std::chrono::minutes(10);

class TimesTest : public ::testing::Test {
 protected:
  WallTime now(Duration off) { return WallTime{world_.clock().wall().ns + off.count()}; }
  /// The datafile's mtime after a write by a client whose clock is wrong by `off`.
  WallTime written(Duration off) {
    wire::WriteRequest request = write_request(where_, *datatype::Description::contiguous(0, 100));
    request.has_inline_data = true;
    request.fs_time = now(off);
    const auto reply = world_.run(client_.write(request, {pattern(1, 100)}, client_.capability(kFile)));
    EXPECT_OK(reply);
    return reply ? reply->datafiles[0].mtime : WallTime();
  }
  WallTime punched(Duration off) {
    wire::PunchRequest request;
    request.where = where_;
    request.what = *datatype::Description::contiguous(0, 50);
    request.fs_time = now(off);
    const Capability capability = client_.capability(kFile);
    const auto reply = client_.ask<wire::PunchReply>(request, &capability);
    EXPECT_OK(reply);
    return reply ? reply->datafiles[0].mtime : WallTime();
  }
  void expect_about(WallTime told, WallTime wanted) {
    EXPECT_LT(std::abs(told.ns - wanted.ns), Duration(std::chrono::seconds(1)).count());
  }

  World world_;
  Client client_{world_};
  wire::SlotSet where_ = slot_set(kFile, 1, 1 << 20);
};

TEST_F(TimesTest, TimesOfASlightlyWrongClockAreAccepted) {
  expect_about(written(-std::chrono::minutes(9)), now(-std::chrono::minutes(9)));
  expect_about(written(std::chrono::minutes(9)), now(std::chrono::minutes(9)));
}

TEST_F(TimesTest, TimesFromTheFarFutureAreLimited) {
  expect_about(written(std::chrono::hours(24 * 365)), now(kBelieved));
  world_.pass(std::chrono::minutes(5));
  expect_about(punched(std::chrono::hours(24 * 365)), now(kBelieved));
  // The limited time is not far ahead: a quarter of an hour later, changes have the right time.
  world_.pass(std::chrono::minutes(15));
  expect_about(written({}), now({}));
}

TEST_F(TimesTest, TimesFromLongAgoAreLimited) {
  expect_about(written(-std::chrono::hours(24 * 365)), now(-kBelieved));
  expect_about(punched({}), now({}));
}

}  // namespace
}  // namespace spate::io::testing
