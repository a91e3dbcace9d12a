// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/lane.h"

#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/expect.h"
#include "base/random.h"

namespace spate::bmi::shm {
namespace {

/// Both ends of a lane, in this process's memory.
class LaneTest : public testing::Test {
 protected:
  static constexpr std::size_t kSlots = 16;
  static constexpr std::size_t kBytes = 4096;

  LaneTest() : slots_(kSlots), data_(kBytes) {
    writer_ = LaneWriter(slots_, data_, slots_taken_, bytes_taken_);
    reader_ = LaneReader(slots_, data_, slots_taken_, bytes_taken_);
  }

  static FrameHeader header(std::uint64_t tag, FrameType type = FrameType::kEager) {
    FrameHeader h;
    h.type = type;
    h.message_class = MessageClass::kBulk;
    h.tag = tag;
    h.length = tag * 3;
    h.id = ~tag;
    return h;
  }
  /// Writes a frame whose payload bytes are all `tag`. False: there is no room.
  bool write(std::uint64_t tag, std::uint64_t chunk) {
    if (!writer_.has_room(chunk)) return false;
    InlineWords small{};
    if (chunk <= kInlineBytes) {
      std::memset(small.data(), static_cast<int>(tag), chunk);
    } else {
      const Room run = writer_.room(chunk);
      std::memset(run.first.data(), static_cast<int>(tag), run.first.size());
      if (!run.second.empty()) std::memset(run.second.data(), static_cast<int>(tag), run.second.size());
    }
    writer_.publish(header(tag), chunk, small);
    return true;
  }
  Bytes payload(const Frame& frame) {
    Bytes bytes;
    if (frame.chunk <= kInlineBytes) return to_bytes(std::as_bytes(std::span(frame.small)).first(frame.chunk));
    const Room run = reader_.payload(frame.chunk);
    bytes.assign(run.first.begin(), run.first.end());
    bytes.insert(bytes.end(), run.second.begin(), run.second.end());
    return bytes;
  }
  void expect(std::uint64_t tag, std::uint64_t chunk) {
    Frame frame;
    ASSERT_EQ(reader_.look(frame), LaneReader::Look::kFrame);
    EXPECT_EQ(frame.header, header(tag));
    ASSERT_EQ(frame.chunk, chunk);
    EXPECT_EQ(payload(frame), Bytes(chunk, static_cast<std::byte>(tag)));
    reader_.take(frame);
  }

  std::vector<FrameSlot> slots_;
  Bytes data_;
  std::atomic<std::uint64_t> slots_taken_{0};
  std::atomic<std::uint64_t> bytes_taken_{0};
  LaneWriter writer_;
  LaneReader reader_;
};

TEST_F(LaneTest, AnEmptyLaneHasNothing) {
  Frame frame;
  EXPECT_FALSE(reader_.ready()) << "nothing was written";
  EXPECT_EQ(reader_.look(frame), LaneReader::Look::kNothing);
  EXPECT_EQ(writer_.max_chunk(), kBytes / 4);
}

TEST_F(LaneTest, FramesOfEverySizeInOrderOverManyLaps) {
  SeededRandom random(1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> in_flight;
  std::uint64_t tag = 0;
  for (int step = 0; step < 8'000; ++step) {
    const std::uint64_t chunk =
        random.chance(1, 2) ? random.below(kInlineBytes + 1) : random.below(writer_.max_chunk() + 1);
    if (write(tag, chunk)) {
      in_flight.emplace_back(tag++ % 256, chunk);
      tag %= 256;
    } else {
      ASSERT_THAT(in_flight, testing::Not(testing::IsEmpty())) << "an empty lane has room for everything";
    }
    while (!in_flight.empty() && random.chance(1, 2)) {
      expect(in_flight.front().first, in_flight.front().second);
      in_flight.erase(in_flight.begin());
      if (random.chance(1, 3)) reader_.publish_taken();
    }
    if (in_flight.empty()) reader_.publish_taken();
  }
  EXPECT_FALSE(writer_.broken()) << "frames that were taken in order broke the writer";
}

TEST_F(LaneTest, AFullLaneHasRoomWhenTheReaderReportsIt) {
  std::uint64_t written = 0;
  while (write(written, 0)) ++written;
  EXPECT_EQ(written, kSlots);
  expect(0, 0);
  EXPECT_FALSE(writer_.has_room(0)) << "taken, but not told";
  EXPECT_TRUE(reader_.publish_taken()) << "one frame was taken since the last report";
  EXPECT_FALSE(reader_.publish_taken()) << "nothing new";
  EXPECT_TRUE(writer_.has_room(0)) << "one slot is free";
}

TEST_F(LaneTest, PayloadFillsTheLaneBeforeItsSlots) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(write(7, kBytes / 4)) << "frame " << i << " of four fills a quarter";
  EXPECT_FALSE(writer_.has_room(kInlineBytes + 1)) << "the payload has no room";
  EXPECT_TRUE(writer_.has_room(kInlineBytes)) << "needs no payload room";
}

TEST_F(LaneTest, AWakeIsWorthItWhenHalfIsTakenOrNothingIsLeft) {
  for (std::uint64_t i = 0; i < kSlots; ++i) ASSERT_TRUE(write(i, 0)) << "slot " << i << " is free";
  for (std::uint64_t i = 0; i + 1 < kSlots / 2; ++i) {
    expect(i, 0);
    EXPECT_FALSE(reader_.worth_a_wake()) << "only " << i + 1 << " frames were taken";
  }
  expect(kSlots / 2 - 1, 0);
  EXPECT_TRUE(reader_.worth_a_wake()) << "half of the lane was taken";
  EXPECT_FALSE(reader_.worth_a_wake()) << "once a half";
  for (std::uint64_t i = kSlots / 2; i < kSlots; ++i) expect(i, 0);
  EXPECT_TRUE(reader_.worth_a_wake()) << "nothing is left in the lane";
}

TEST_F(LaneTest, CountersThatGoBackOrAheadBreakTheWriter) {
  for (const std::uint64_t told : {std::uint64_t{3}, std::uint64_t{0} - 1, std::uint64_t{1} << 63U}) {
    slots_taken_ = 0;
    LaneWriter writer(slots_, data_, slots_taken_, bytes_taken_);
    for (std::size_t i = 0; i < kSlots; ++i) {
      ASSERT_TRUE(writer.has_room(0)) << "slot " << i << " is free";
      writer.publish(header(1), 0, {});
    }
    slots_taken_ = 2;
    ASSERT_TRUE(writer.has_room(0)) << "two slots are free";
    writer.publish(header(1), 0, {});
    writer.publish(header(1), 0, {});
    slots_taken_ = told == 3 ? 1 : told;  // a counter that goes back, or is ahead of everything that was written
    EXPECT_FALSE(writer.has_room(0)) << "the reader says that it took " << told;
    EXPECT_TRUE(writer.broken()) << "the reader says that it took " << told;
    slots_taken_ = 4;
    EXPECT_FALSE(writer.has_room(0)) << "once broken, broken for good";
  }
}

TEST_F(LaneTest, ByteCountersFollowTheSameLimit) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(write(1, kBytes / 4)) << "frame " << i << " of four fills a quarter";
  bytes_taken_ = 5 * kBytes;
  EXPECT_FALSE(writer_.has_room(100)) << "the reader says that it took more than was written";
  EXPECT_TRUE(writer_.broken()) << "the reader says that it took more than was written";
}

TEST_F(LaneTest, AFrameThatMakesNoSenseIsInvalid) {
  const auto look_at = [&](std::uint64_t word, std::uint64_t chunk) {
    slots_[0][4] = chunk;
    slots_[0][0] = word | 1U;
    Frame frame;
    return reader_.look(frame);
  };
  constexpr std::uint64_t kEager = std::uint64_t{1} << 32U;
  EXPECT_EQ(look_at(kEager, 100), LaneReader::Look::kFrame);
  EXPECT_EQ(look_at(0, 0), LaneReader::Look::kInvalid) << "type 0";
  EXPECT_EQ(look_at(std::uint64_t{14} << 32U, 0), LaneReader::Look::kInvalid) << "type";
  EXPECT_EQ(look_at(kEager | std::uint64_t{2} << 40U, 0), LaneReader::Look::kInvalid) << "class";
  EXPECT_EQ(look_at(kEager | std::uint64_t{4} << 48U, 0), LaneReader::Look::kInvalid) << "flags";
  EXPECT_EQ(look_at(kEager | std::uint64_t{1} << 56U, 0), LaneReader::Look::kInvalid) << "reserved";
  EXPECT_EQ(look_at(kEager, kBytes / 4 + 1), LaneReader::Look::kInvalid) << "chunk";
  EXPECT_EQ(look_at(kEager, ~std::uint64_t{0}), LaneReader::Look::kInvalid) << "chunk";
}

// Both ends run at the same time over the same memory, so that the thread sanitizer can watch them.
TEST_F(LaneTest, TwoThreads) {
  constexpr std::uint64_t kFrames = 4'000;
  std::thread other([&] {
    for (std::uint64_t i = 0; i < kFrames; ++i) {
      while (!write(i % 256, i % 700)) std::this_thread::yield();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kFrames; ++i) {
    Frame frame;
    while (reader_.look(frame) == LaneReader::Look::kNothing) {
      reader_.publish_taken();
      std::this_thread::yield();
    }
    if (payload(frame) != Bytes(i % 700, static_cast<std::byte>(i % 256))) ++wrong;
    reader_.take(frame);
    if (i % 5 == 0) reader_.publish_taken();
  }
  other.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace spate::bmi::shm
