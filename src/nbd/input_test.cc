// SPDX-License-Identifier: Apache-2.0
#include "nbd/input.h"

#include <algorithm>
#include <string>

#include "base/expect.h"

namespace spate::nbd {
namespace {

void arrive(Input& input, std::string_view text) {
  const MutableByteView room = input.room();
  ASSERT_LE(text.size(), room.size());
  std::ranges::copy(as_bytes(text), room.begin());
  input.add(text.size());
}

std::string waiting(const Input& input) { return std::string(as_text(input.view())); }

TEST(NbdInput, BytesAreTakenInTheOrderOfTheirArrival) {
  Input input(8);
  arrive(input, "abc");
  arrive(input, "de");
  EXPECT_EQ(waiting(input), "abcde");
  input.take(2);
  EXPECT_EQ(waiting(input), "cde");
  EXPECT_EQ(input.room().size(), 3U);
}

TEST(NbdInput, TheWholeMemoryIsFreeWhenEverythingWasTaken) {
  Input input(8);
  arrive(input, "abcdef");
  input.take(6);
  input.tidy();
  EXPECT_EQ(input.room().size(), 8U);
  EXPECT_EQ(waiting(input), "");
}

TEST(NbdInput, BytesAreMovedOnlyWhenThereIsNoRoomBehindThem) {
  Input input(8);
  arrive(input, "abcdef");
  input.take(4);
  const std::byte* const before = input.view().data();
  input.tidy();
  EXPECT_EQ(input.view().data(), before);
  EXPECT_EQ(input.room().size(), 2U);
  arrive(input, "gh");
  input.tidy();
  EXPECT_NE(input.view().data(), before);
  EXPECT_EQ(waiting(input), "efgh");
  EXPECT_EQ(input.room().size(), 4U);
}

TEST(NbdInput, FullMemoryOfWhichNothingWasTakenHasNoRoom) {
  Input input(4);
  arrive(input, "abcd");
  input.tidy();
  EXPECT_EQ(input.room().size(), 0U);
  EXPECT_EQ(waiting(input), "abcd");
}

TEST(NbdInput, RoomIsMadeForAMessageThatHasArrivedInPart) {
  Input input(8);
  arrive(input, "abcdef");
  input.take(3);
  input.make_room(5);
  EXPECT_EQ(input.room().size(), 2U) << "it fits where it is";
  input.make_room(6);
  EXPECT_EQ(input.room().size(), 5U);
  EXPECT_EQ(waiting(input), "def");
}

TEST(NbdInput, WhatWasTakenStaysInItsPlaceUntilRoomIsMade) {
  Input input(8);
  arrive(input, "abcdef");
  const ByteView all = input.view();
  input.take(6);
  EXPECT_EQ(as_text(all), "abcdef");
}

}  // namespace
}  // namespace spate::nbd
