// SPDX-License-Identifier: Apache-2.0
#include "rpc/waiting_room.h"

#include "base/expect.h"

namespace spate::rpc {
namespace {

Arrived request(std::uint64_t peer, std::uint64_t tag, std::size_t bytes) {
  Arrived made;
  made.message.peer = bmi::Address(peer);
  made.message.tag = bmi::Tag(tag);
  made.message.payload = Buffer(bytes);
  return made;
}

bool put(WaitingRoom& room, std::uint64_t peer, std::uint64_t tag, std::size_t bytes) {
  Arrived one = request(peer, tag, bytes);
  return room.put(one);
}

TEST(WaitingRoomTest, RequestsLeaveInTheOrderOfArrival) {
  WaitingRoom room(10'000, 10'000);
  EXPECT_TRUE(put(room, 1, 1, 10));
  EXPECT_TRUE(put(room, 2, 2, 10));
  EXPECT_TRUE(put(room, 1, 3, 10));
  for (const std::uint64_t tag : {1U, 2U, 3U}) EXPECT_EQ(room.take().message.tag, bmi::Tag(tag));
  EXPECT_TRUE(room.empty());
}

TEST(WaitingRoomTest, OnePeerTakesOnlyItsShare) {
  WaitingRoom room(10'000, 1000);
  EXPECT_TRUE(put(room, 1, 1, 600));
  EXPECT_FALSE(put(room, 1, 2, 600));
  EXPECT_TRUE(put(room, 2, 3, 600));
  room.take();
  EXPECT_TRUE(put(room, 1, 4, 600));
}

TEST(WaitingRoomTest, HoldsNoMoreThanItsBound) {
  WaitingRoom room(1000, 1000);
  EXPECT_TRUE(put(room, 1, 1, 600));
  Arrived refused = request(2, 2, 600);
  EXPECT_FALSE(room.put(refused));
  EXPECT_EQ(refused.message.payload.size(), 600U) << "a request that was refused is the caller's still";
  room.take();
  EXPECT_TRUE(room.put(refused));
}

}  // namespace
}  // namespace spate::rpc
