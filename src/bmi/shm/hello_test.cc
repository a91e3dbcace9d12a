// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/hello.h"

#include <optional>

#include "base/expect.h"
#include "base/random.h"
#include "bmi/shm/packet.h"

namespace spate::bmi::shm {
namespace {

Hello some_hello() {
  Hello hello;
  hello.link.fill(std::byte{7});
  hello.limits = {1 << 20, 1 << 18, 99};
  return hello;
}

Welcome some_welcome() {
  Welcome welcome;
  welcome.policy = AccessPolicy::Kind::kList;
  welcome.limits = {1 << 21, 1 << 17, 98};
  welcome.geometry.lanes = {LaneSize{64, 8192}, LaneSize{128, 1 << 20}};
  return welcome;
}

TEST(ShmHello, EncodingAndDecodingGiveTheSameHello) {
  EXPECT_EQ(decode_hello(encode(some_hello())), some_hello());
  EXPECT_EQ(decode_welcome(encode(some_welcome())), some_welcome());
  const Note note{Note::Kind::kArena, 3, 1ULL << 40U};
  EXPECT_EQ(decode_note(encode(note)), note);
  EXPECT_LE(kHelloSize, kMaxPacket);
  EXPECT_LE(kWelcomeSize, kMaxPacket);
}

TEST(ShmHello, InvalidBytesAreRefused) {
  Bytes bytes = encode(some_hello());
  bytes[0] = std::byte{'s'};
  EXPECT_EQ(decode_hello(bytes), std::nullopt);
  bytes = encode(some_hello());
  bytes.pop_back();
  EXPECT_EQ(decode_hello(bytes), std::nullopt) << "short";
  bytes = encode(some_hello());
  bytes[8] = std::byte{9};  // lowest version above the highest
  EXPECT_EQ(decode_hello(bytes), std::nullopt);
  bytes = encode(some_hello());
  bytes[39] = std::byte{1};  // window of 2^56
  EXPECT_EQ(decode_hello(bytes), std::nullopt);
  EXPECT_EQ(decode_welcome(encode(some_hello())), std::nullopt);
  EXPECT_EQ(decode_note(ByteView()), std::nullopt);
  EXPECT_EQ(decode_note(Bytes(kNoteSize)), std::nullopt) << "kind 0";
}

TEST(ShmHello, OtherVersionsDecode) {
  Hello hello = some_hello();
  hello.versions.min = hello.versions.max = 77;
  ASSERT_NE(decode_hello(encode(hello)), std::nullopt);
  EXPECT_EQ(decode_hello(encode(hello))->versions.min, 77);
  Welcome welcome = some_welcome();
  welcome.status = Errc::kVersionMismatch;
  welcome.version = 77;
  ASSERT_NE(decode_welcome(encode(welcome)), std::nullopt);
  EXPECT_EQ(decode_welcome(encode(welcome))->version, 77);
  for (const std::size_t size : {16U, 40U, 128U}) {  // a later version may append fields
    Bytes bytes = encode(hello);
    bytes.resize(size);
    ASSERT_NE(decode_hello(bytes), std::nullopt) << size;
    EXPECT_EQ(decode_hello(bytes)->versions.max, 77);
    bytes = encode(welcome);
    bytes.resize(size);
    ASSERT_NE(decode_welcome(bytes), std::nullopt) << size;
    EXPECT_EQ(decode_welcome(bytes)->status, Errc::kVersionMismatch);
  }
  Bytes longer = encode(some_hello());
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode_hello(longer), std::nullopt) << "of our version";
}

TEST(ShmHello, AnImpossibleGeometryIsRefused) {
  for (const LaneSize bad : {LaneSize{8, 8192}, LaneSize{65, 8192}, LaneSize{1 << 17, 8192}, LaneSize{64, 2048},
                             LaneSize{64, 8193}, LaneSize{64, std::uint64_t{1} << 40U}}) {
    Welcome welcome = some_welcome();
    welcome.geometry.lanes[1] = bad;
    EXPECT_EQ(decode_welcome(encode(welcome)), std::nullopt) << bad.slots << " " << bad.bytes;
  }
}

TEST(ShmHello, RandomBytesNeverCrash) {
  SeededRandom random(3);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = i % 2 == 0 ? encode(some_welcome()) : encode(some_hello());
    for (int j = 0; j < 3; ++j) bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    const auto welcome = decode_welcome(bytes);
    if (welcome && welcome->status == Errc::kOk)
      EXPECT_TRUE(is_valid(welcome->geometry)) << "an impossible geometry was decoded in round " << i;
    (void)decode_hello(bytes);
    (void)decode_note(ByteView(bytes).first(kNoteSize));
  }
}

TEST(ShmLayout, NothingOverlaps) {
  const Geometry geometry = some_welcome().geometry;
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  std::vector<Range> ranges;
  for (const Side side : {Side::kAcceptor, Side::kConnector}) {
    ranges.push_back({side_offset(side), side_offset(side) + sizeof(SideBlock)});
    for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
      const LanePlace place = lane_place(geometry, side, c);
      const LaneSize& lane = geometry.lanes[index_of(c)];
      EXPECT_EQ(place.slots % 64, 0U);
      ranges.push_back({place.slots, place.slots + lane.slots * kSlotSize});
      ranges.push_back({place.data, place.data + lane.bytes});
    }
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].end, ranges[i].begin);
  EXPECT_LE(ranges.back().end, segment_size(geometry));
}

}  // namespace
}  // namespace spate::bmi::shm
