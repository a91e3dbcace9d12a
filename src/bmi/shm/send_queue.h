// SPDX-License-Identifier: Apache-2.0
// SendQueue: the frames that wait for room in a lane; copies payload into it, from memory and from files.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "bmi/ring.h"
#include "bmi/shm/frame.h"
#include "bmi/shm/lane.h"
#include "bmi/shm/op.h"

namespace spate::bmi::shm {

/// How a flush ended.
enum class FlushStatus : std::uint8_t {
  kEmpty,    // everything is in the lane
  kBlocked,  // the lane is full
  kMore,     // the budget is spent
};

/// Is told which operations have left.
class SendObserver {
 public:
  virtual ~SendObserver() = default;
  /// The operation's whole message is in the lane: its memory may be reused.
  virtual void sent(ShmOp& op) = 0;
  /// A file segment of it could not be read: nothing, or no more, of it leaves.
  virtual void failed(ShmOp& op, Errc status) = 0;
  /// kWiden is in the narrow lane: the writer that the queue flushes into is to be the full lane's from now on.
  virtual void widened(MessageClass c) = 0;
};

/// Writes a message whose segments, memory only, fit one frame for which there is room.
void write_message(LaneWriter& lane, const FrameHeader& header, SegmentList segments);

/// Not thread-safe (the module's lock).
class SendQueue {
 public:
  /// Appends a frame whose payload, if any, is `op`'s; `op->left` bytes of it from `op->cursor`.
  void push(const FrameHeader& header, ShmOp* op);
  /// Appends a frame with a payload of its own, which fits one frame.
  void push_own(const FrameHeader& header, Bytes payload);
  /// Takes the operation's message back. False: a part of it has left, and an abort leaves in place of the rest;
  /// true: nothing had, and `substitute`, if any, leaves in its place.
  bool withdraw(ShmOp& op, const FrameHeader* substitute);
  /// Writes until the lane is full or `budget` bytes of payload are spent, which it counts down.
  FlushStatus flush(LaneWriter& lane, SendObserver& observer, std::uint64_t& budget);

  bool empty() const { return frames_.empty(); }
  /// Frames without an operation in the queue.
  std::size_t answers() const { return answers_; }

 private:
  struct Frame {
    FrameHeader header;
    ShmOp* op = nullptr;
    Bytes own;
    bool skipped = false;
  };

  static bool write_whole(LaneWriter& lane, const FrameHeader& header, ByteView payload);
  FlushStatus write_op(LaneWriter& lane, Frame& frame, SendObserver& observer, std::uint64_t& budget);

  Ring<Frame> frames_;
  std::size_t answers_ = 0;
  bool begun_ = false;  // a part of the front message is in the lane
};

}  // namespace spate::bmi::shm
