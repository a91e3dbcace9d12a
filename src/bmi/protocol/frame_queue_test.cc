// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/frame_queue.h"

#include <array>
#include <vector>

#include "bmi/protocol/fixture.h"

namespace spate::bmi::protocol {
namespace {

/// A lane with room for this many frames of at most 10 bytes.
struct Lane {
  std::size_t frames_left = 0;
  std::array<std::byte, 10> bytes{};
  std::vector<FrameType> written;

  bool room(std::uint64_t wanted, bool /*message*/, Room& room) {
    room = Room{MutableByteView(bytes).first(std::min<std::uint64_t>(wanted, bytes.size())), {}};
    return frames_left > 0;
  }
  void publish(const Header& header, std::uint64_t /*payload*/) {
    --frames_left;
    written.push_back(header.type);
  }
};

using FrameQueueTest = ProtocolTest;

TEST_F(FrameQueueTest, AQueueGoesOnWhereTheRoomEnded) {
  FrameQueue queue;
  Op& op = begin(1, 25, false);
  op.left = op.size;
  queue.push(header_of(FrameType::kEager, 1, 25), &op);
  Lane lane;
  lane.frames_left = 2;
  EXPECT_FALSE(queue.flush(lane, peer.sender())) << "five bytes are left";
  lane.frames_left = 1;
  EXPECT_TRUE(queue.flush(lane, peer.sender())) << "all is written";
  EXPECT_EQ(lane.written, (std::vector{FrameType::kEager, FrameType::kMore, FrameType::kMore}));
  EXPECT_EQ(ended().size(), 1U);
}

TEST_F(FrameQueueTest, AMessageThatHasBegunToLeaveIsAborted) {
  FrameQueue queue;
  Op& op = begin(1, 25, false);
  op.left = op.size;
  queue.push(header_of(FrameType::kEager, 1, 25), &op);
  Lane lane;
  lane.frames_left = 1;
  EXPECT_FALSE(queue.flush(lane, peer.sender())) << "fifteen bytes are left";
  EXPECT_EQ(queue.withdraw(op, nullptr), Withdrawn::kAborted);
  lane.frames_left = 5;
  EXPECT_TRUE(queue.flush(lane, peer.sender())) << "all is written";
  EXPECT_EQ(lane.written, (std::vector{FrameType::kEager, FrameType::kAbort}));
  state.release(op);
}

TEST_F(FrameQueueTest, AMessageThatHasNotLeftIsSkippedOrReplaced) {
  FrameQueue queue;
  std::array<Op*, 2> ops{};
  for (Op*& op : ops) {
    op = &begin(1, 25, false);
    op->left = op->size;
    queue.push(header_of(FrameType::kEager, 1, 25), op);
  }
  const Header no_data = header_of(FrameType::kNoData, 0, 0);
  EXPECT_EQ(queue.withdraw(*ops[0], nullptr), Withdrawn::kUnsent);
  EXPECT_EQ(queue.withdraw(*ops[1], &no_data), Withdrawn::kUnsent);
  Lane lane;
  lane.frames_left = 5;
  EXPECT_TRUE(queue.flush(lane, peer.sender())) << "all is written";
  EXPECT_EQ(lane.written, std::vector{FrameType::kNoData});
  for (Op* op : ops) state.release(*op);
}

TEST_F(FrameQueueTest, AFrameThatGoesAheadLeavesBeforeMessagesThatHaveNotBegun) {
  FrameQueue queue;
  for (int i = 0; i < 2; ++i) {
    Op& op = begin(1, 15, false);
    op.left = op.size;
    queue.push(header_of(FrameType::kEager, 1, 15), &op);
  }
  Lane lane;
  lane.frames_left = 1;
  EXPECT_FALSE(queue.flush(lane, peer.sender())) << "the first message has begun";
  queue.push_ahead(header_of(FrameType::kTaken, 0, 0));
  lane.frames_left = 9;
  EXPECT_TRUE(queue.flush(lane, peer.sender())) << "all is written";
  EXPECT_EQ(lane.written,
            (std::vector{FrameType::kEager, FrameType::kMore, FrameType::kTaken, FrameType::kEager, FrameType::kMore}));
}

TEST_F(FrameQueueTest, AFrameThatGoesAheadLeavesAfterTheAbortOfAMessage) {
  FrameQueue queue;
  Op& op = begin(1, 25, false);
  op.left = op.size;
  queue.push(header_of(FrameType::kEager, 1, 25), &op);
  Lane lane;
  lane.frames_left = 1;
  EXPECT_FALSE(queue.flush(lane, peer.sender())) << "fifteen bytes are left";
  queue.push_ahead(header_of(FrameType::kTaken, 0, 0));
  EXPECT_EQ(queue.withdraw(op, nullptr), Withdrawn::kAborted);
  lane.frames_left = 5;
  EXPECT_TRUE(queue.flush(lane, peer.sender())) << "all is written";
  EXPECT_EQ(lane.written, (std::vector{FrameType::kEager, FrameType::kAbort, FrameType::kTaken}));
  state.release(op);
}

TEST_F(FrameQueueTest, AQueueWithAFrameThatGoesAheadIsNotEmpty) {
  FrameQueue queue;
  queue.push_ahead(header_of(FrameType::kTaken, 0, 0));
  EXPECT_FALSE(queue.empty()) << "a frame waits to go ahead";
  Lane lane;
  EXPECT_FALSE(queue.flush(lane, peer.sender())) << "there was no room";
  lane.frames_left = 1;
  EXPECT_TRUE(queue.flush(lane, peer.sender())) << "the frame is written";
  EXPECT_TRUE(queue.empty()) << "the frame has left";
}

}  // namespace
}  // namespace spate::bmi::protocol
