// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/frame_queue.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/copy.h"

namespace spate::bmi::protocol {

int FrameQueue::gather(Op& op, MutableByteView room) {
  while (!room.empty()) {
    const Segment& segment = op.cursor.segment();
    const std::uint64_t size = std::min<std::uint64_t>(room.size(), op.cursor.left_in_segment());
    const bool ends_segment = size == op.cursor.left_in_segment();
    std::uint64_t done = size;
    if (!op.cursor.at_file()) {
      copy_memory(room.data(), segment.memory + op.cursor.offset(), size);
    } else if (op.past_end) {
      std::memset(room.data(), 0, size);
    } else {
      const ssize_t n = ::pread(segment.fd, room.data(), size, static_cast<off_t>(segment.offset + op.cursor.offset()));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      op.past_end = n == 0;
      done = static_cast<std::uint64_t>(n);
    }
    op.cursor.advance(done);
    room = room.subspan(done);
    if (ends_segment && done == size) op.past_end = false;
  }
  return 0;
}

void FrameQueue::push(const Header& header, Op* op) {
  const std::uint64_t position = frames_.push(Frame{header, op, {}, false});
  if (op != nullptr) {
    op->position = position;
  } else {
    ++answers_;
  }
}

void FrameQueue::push_own(const Header& header, Bytes payload) {
  frames_.push(Frame{header, nullptr, std::move(payload), false});
  ++answers_;
}

void FrameQueue::push_ahead(const Header& header) {
  SPATE_CHECK(!ahead_);
  ahead_ = header;
}

Withdrawn FrameQueue::withdraw(Op& op, const Header* instead) {
  const bool begun = begun_ && op.position == frames_.first();
  Frame& frame = frames_.at(op.position);
  frame.op = nullptr;
  ++answers_;  // counted like an answer until it leaves the queue
  if (begun) {
    frame.header = Header{};
    frame.header.type = FrameType::kAbort;
    frame.header.message_class = op.message_class;
    begun_ = false;  // the abort is an ordinary frame
    return Withdrawn::kAborted;
  }
  frame.skipped = instead == nullptr;
  if (instead != nullptr) frame.header = *instead;
  return Withdrawn::kUnsent;
}

void FrameQueue::copy_own(const Frame& frame, const Room& room) {
  const ByteView own(frame.own);
  copy_memory(room.first.data(), own.data(), room.first.size());
  if (!room.second.empty()) copy_memory(room.second.data(), own.data() + room.first.size(), room.second.size());
}

void FrameQueue::drop_front() {
  frames_.front().own = Bytes();
  frames_.pop();
  --answers_;
}

}  // namespace spate::bmi::protocol
