// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/send_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace spate::bmi::ofi {
namespace {

/// Fills `out` with what comes next of the operation's segments. 0, or the errno of a file that cannot be read.
int gather(OfiOp& op, MutableByteView out) {
  while (!out.empty()) {
    const Segment& segment = op.cursor.segment();
    const std::uint64_t size = std::min<std::uint64_t>(out.size(), op.cursor.left_in_segment());
    const bool ends_segment = size == op.cursor.left_in_segment();
    std::uint64_t done = size;
    if (!op.cursor.at_file()) {
      std::memcpy(out.data(), segment.memory + op.cursor.offset(), size);
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

}  // namespace

void SendQueue::push(const PacketHeader& header, OfiOp* op) {
  const std::uint64_t position = entries_.push(Entry{header, op, {}, false});
  if (op != nullptr) {
    op->position = position;
  } else {
    ++answers_;
  }
}

void SendQueue::push_own(const PacketHeader& header, Bytes payload) {
  entries_.push(Entry{header, nullptr, std::move(payload), false});
  ++answers_;
}

bool SendQueue::withdraw(OfiOp& op, const PacketHeader* substitute) {
  const bool begun = begun_ && op.position == entries_.first();
  Entry& entry = entries_.at(op.position);
  entry.op = nullptr;
  ++answers_;  // counted like one until it is gone
  if (begun) {
    entry.header = PacketHeader{};
    entry.header.type = PacketType::kAbort;
    entry.header.message_class = op.message_class;
    begun_ = false;  // the abort is a packet like any other
    return false;
  }
  entry.skipped = substitute == nullptr;
  if (substitute != nullptr) entry.header = *substitute;
  return true;
}

bool SendQueue::flush(PacketWriter& writer, SendObserver& observer) {
  while (!entries_.empty()) {
    Entry& front = entries_.front();
    if (front.op != nullptr) {
      if (!write_op(writer, front, observer)) return false;
      continue;
    }
    if (!front.skipped) {
      const MutableByteView room = writer.room();
      if (room.empty()) return false;
      std::ranges::copy(front.own, room.begin());
      writer.publish(front.header, front.own.size());
    }
    front.own = Bytes();
    entries_.pop();
    --answers_;
  }
  return true;
}

bool SendQueue::write_op(PacketWriter& writer, Entry& entry, SendObserver& observer) {
  OfiOp& op = *entry.op;
  do {
    MutableByteView room = writer.room();
    if (room.empty()) return false;
    room = room.first(std::min<std::uint64_t>(op.left, room.size()));
    const int failed = gather(op, room);
    if (failed != 0) {
      observer.failed(op, errc_from_errno(failed));  // withdraws it: the entry is another one now, or skipped
      return true;
    }
    PacketHeader header = entry.header;
    if (begun_) {
      header = PacketHeader{};
      header.type = PacketType::kMore;
      header.message_class = op.message_class;
    }
    writer.publish(header, room.size());
    op.left -= room.size();
    begun_ = op.left > 0;
  } while (op.left > 0);
  entries_.pop();
  observer.sent(op);
  return true;
}

}  // namespace spate::bmi::ofi
