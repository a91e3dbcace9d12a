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
  EXPECT_FALSE(queue.flush(lane, peer.sender()));
  lane.frames_left = 1;
  EXPECT_TRUE(queue.flush(lane, peer.sender()));
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
  EXPECT_FALSE(queue.flush(lane, peer.sender()));
  EXPECT_EQ(queue.withdraw(op, nullptr), Withdrawn::kAborted);
  lane.frames_left = 5;
  EXPECT_TRUE(queue.flush(lane, peer.sender()));
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
  EXPECT_TRUE(queue.flush(lane, peer.sender()));
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
  EXPECT_EQ(queue.flush(lane, peer.sender()), false) << "the first message has begun";
  queue.push_ahead(header_of(FrameType::kTaken, 0, 0));
  lane.frames_left = 9;
  EXPECT_EQ(queue.flush(lane, peer.sender()), true);
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
  EXPECT_EQ(queue.flush(lane, peer.sender()), false);
  queue.push_ahead(header_of(FrameType::kTaken, 0, 0));
  EXPECT_EQ(queue.withdraw(op, nullptr), Withdrawn::kAborted);
  lane.frames_left = 5;
  EXPECT_EQ(queue.flush(lane, peer.sender()), true);
  EXPECT_EQ(lane.written, (std::vector{FrameType::kEager, FrameType::kAbort, FrameType::kTaken}));
  state.release(op);
}

TEST_F(FrameQueueTest, AQueueWithAFrameThatGoesAheadIsNotEmpty) {
  FrameQueue queue;
  queue.push_ahead(header_of(FrameType::kTaken, 0, 0));
  EXPECT_EQ(queue.empty(), false);
  Lane lane;
  EXPECT_EQ(queue.flush(lane, peer.sender()), false) << "there was no room";
  lane.frames_left = 1;
  EXPECT_EQ(queue.flush(lane, peer.sender()), true);
  EXPECT_EQ(queue.empty(), true);
}

}  // namespace
}  // namespace spate::bmi::protocol
