// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/send_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/copy.h"

namespace spate::bmi::shm {
namespace {

/// Fills `out` with what comes next of the operation's segments. 0, or the errno of a file that cannot be read.
int gather(ShmOp& op, MutableByteView out) {
  while (!out.empty()) {
    const Segment& segment = op.cursor.segment();
    const std::uint64_t size = std::min<std::uint64_t>(out.size(), op.cursor.left_in_segment());
    const bool ends_segment = size == op.cursor.left_in_segment();
    std::uint64_t done = size;
    if (!op.cursor.at_file()) {
      copy_memory(out.data(), segment.memory + op.cursor.offset(), size);
    } else if (op.past_end) {
      std::memset(out.data(), 0, size);
    } else {
      const ssize_t n = ::pread(segment.fd, out.data(), size, static_cast<off_t>(segment.offset + op.cursor.offset()));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      op.past_end = n == 0;
      done = static_cast<std::uint64_t>(n);
    }
    op.cursor.advance(done);
    out = out.subspan(done);
    if (ends_segment && done == size) op.past_end = false;
  }
  return 0;
}

int gather(ShmOp& op, const Stretch& run) {
  const int failed = gather(op, run.first);
  return failed != 0 ? failed : gather(op, run.second);
}

void copy_to(const Stretch& run, ByteView from) {
  copy_memory(run.first.data(), from.data(), run.first.size());
  if (!run.second.empty()) copy_memory(run.second.data(), from.data() + run.first.size(), run.second.size());
}

MutableByteView bytes_of(InlineWords& words, std::uint64_t size) {
  return std::as_writable_bytes(std::span(words)).first(size);
}

}  // namespace

void write_message(LaneWriter& lane, const FrameHeader& header, SegmentList segments) {
  InlineWords small{};
  const bool is_small = header.length <= kInlineBytes;
  Stretch run = is_small ? Stretch{bytes_of(small, header.length), {}} : lane.room(header.length);
  for (const Segment& segment : segments) {
    ByteView left(segment.memory, segment.size);
    while (!left.empty()) {
      MutableByteView& to = run.first.empty() ? run.second : run.first;
      const std::size_t size = std::min(left.size(), to.size());
      copy_memory(to.data(), left.data(), size);
      to = to.subspan(size);
      left = left.subspan(size);
    }
  }
  lane.publish(header, header.length, small);
}

void SendQueue::push(const FrameHeader& header, ShmOp* op) {
  const std::uint64_t position = frames_.push(Frame{header, op, {}, false});
  if (op != nullptr) {
    op->position = position;
  } else {
    ++answers_;
  }
}

void SendQueue::push_own(const FrameHeader& header, Bytes payload) {
  frames_.push(Frame{header, nullptr, std::move(payload), false});
  ++answers_;
}

bool SendQueue::withdraw(ShmOp& op, const FrameHeader* substitute) {
  const bool begun = begun_ && op.position == frames_.first();
  Frame& frame = frames_.at(op.position);
  frame.op = nullptr;
  ++answers_;  // counted like one until it is gone
  if (begun) {
    frame.header = FrameHeader{};
    frame.header.type = FrameType::kAbort;
    frame.header.message_class = op.message_class;
    begun_ = false;  // the abort is a frame like any other
    return false;
  }
  frame.skipped = substitute == nullptr;
  if (substitute != nullptr) frame.header = *substitute;
  return true;
}

bool SendQueue::write_whole(LaneWriter& lane, const FrameHeader& header, ByteView payload) {
  if (!lane.has_room(payload.size())) return false;
  InlineWords small{};
  if (payload.size() <= kInlineBytes) {
    std::ranges::copy(payload, bytes_of(small, payload.size()).begin());
  } else {
    copy_to(lane.room(payload.size()), payload);
  }
  lane.publish(header, payload.size(), small);
  return true;
}

FlushStatus SendQueue::flush(LaneWriter& lane, SendObserver& observer, std::uint64_t& budget) {
  while (!frames_.empty()) {
    Frame& front = frames_.front();
    if (front.op != nullptr) {
      const FlushStatus status = write_op(lane, front, observer, budget);
      if (status != FlushStatus::kEmpty) return status;
      continue;
    }
    if (!front.skipped && !write_whole(lane, front.header, front.own)) return FlushStatus::kBlocked;
    if (front.header.type == FrameType::kWiden) observer.widened(front.header.message_class);
    front.own = Bytes();
    frames_.pop();
    --answers_;
  }
  return FlushStatus::kEmpty;
}

FlushStatus SendQueue::write_op(LaneWriter& lane, Frame& frame, SendObserver& observer, std::uint64_t& budget) {
  ShmOp& op = *frame.op;
  do {
    const std::uint64_t chunk = std::min(op.left, lane.max_chunk());
    if (!lane.has_room(chunk)) return FlushStatus::kBlocked;
    if (budget == 0) return FlushStatus::kMore;
    InlineWords small{};
    const int failed = chunk <= kInlineBytes ? gather(op, bytes_of(small, chunk)) : gather(op, lane.room(chunk));
    if (failed != 0) {
      observer.failed(op, errc_from_errno(failed));  // withdraws it: the frame is another one now, or skipped
      return FlushStatus::kEmpty;
    }
    if (begun_) {
      FrameHeader more;
      more.type = FrameType::kMore;
      more.message_class = op.message_class;
      lane.publish(more, chunk, small);
    } else {
      lane.publish(frame.header, chunk, small);
    }
    op.left -= chunk;
    budget -= std::min(budget, chunk);
    begun_ = op.left > 0;
  } while (op.left > 0);
  frames_.pop();
  observer.sent(op);
  return FlushStatus::kEmpty;
}

}  // namespace spate::bmi::shm
