// SPDX-License-Identifier: Apache-2.0
// FrameQueue: the frames of one class that wait for room in a lane or in packets; copies payload into them, from memory
// and from files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.h"
#include "bmi/protocol/op.h"
#include "bmi/protocol/sender.h"
#include "bmi/ring.h"

namespace spate::bmi::protocol {

/// Life cycle: default value -> push() and flush() in any order -> replaced by a new value when the connection is lost,
/// which drops the frames; the module ends their operations. An operation in the queue must stay until its frame has
/// left (Sender::sent() or failed() is called from flush()) or withdraw() took it back. Not thread-safe: the module's
/// lock guards it.
class FrameQueue {
 public:
  /// Appends a frame. If `op` is given, its payload is the `op->left` bytes from `op->cursor` on.
  void push(const Header& header, Op* op);
  /// Appends a frame with its own payload, which fits one frame.
  void push_own(const Header& header, Bytes payload);
  /// Adds a frame without payload that leaves before all frames that wait, but not within a message that has begun.
  /// There is at most one such frame at a time.
  void push_ahead(const Header& header);
  /// See Path::withdraw.
  Withdrawn withdraw(Op& op, const Header* instead);

  /// Writes until there is no room. True when everything is out. A Writer has
  ///   bool room(std::uint64_t wanted, bool message, Room& room): finds room for a frame with up to `wanted` bytes of
  ///     payload. `message`: the payload belongs to a message; else to the frame itself.
  ///     False: there is no room now;
  ///   void publish(const Header& header, std::uint64_t payload): sends what was written to room().
  template <typename Writer>
  bool flush(Writer& writer, Sender& sender) {
    while (!empty()) {
      if (ahead_ && !within_message()) {
        Room room;
        if (!writer.room(0, false, room)) return false;
        writer.publish(*std::exchange(ahead_, std::nullopt), 0);
        continue;
      }
      Frame& front = frames_.front();
      if (front.op != nullptr) {
        if (!write_message(writer, front, sender)) return false;
        continue;
      }
      if (!front.skipped) {
        Room room;
        if (!writer.room(front.own.size(), false, room)) return false;
        if (!front.own.empty()) copy_own(front, room);
        writer.publish(front.header, front.own.size());
      }
      drop_front();
    }
    return true;
  }

  bool empty() const { return frames_.empty() && !ahead_; }
  /// Whether so many answers wait that the peer must have stopped fetching them. The module drops such a peer, since
  /// answers are not queued without bound.
  bool too_many_answers() const { return answers_ > 64 * 1024; }

 private:
  struct Frame {
    Header header;
    Op* op = nullptr;
    Bytes own;
    bool skipped = false;
  };

  /// Copies the next bytes of the operation's segments to `room`. 0, or the errno of a file that cannot be read.
  static int gather(Op& op, MutableByteView room);
  /// Whether a message has begun to leave, and neither its end nor its abort has left.
  bool within_message() { return begun_ || (!frames_.empty() && frames_.front().header.type == FrameType::kAbort); }
  static void copy_own(const Frame& frame, const Room& room);
  void drop_front();

  template <typename Writer>
  bool write_message(Writer& writer, Frame& frame, Sender& sender) {
    Op& op = *frame.op;
    do {
      Room room;
      if (!writer.room(op.left, true, room)) return false;
      int failed = gather(op, room.first);
      if (failed == 0 && !room.second.empty()) failed = gather(op, room.second);
      if (failed != 0) {
        // Withdraws the operation: the frame is replaced, or marked as skipped.
        sender.failed(op, errc_from_errno(failed));
        return true;
      }
      if (begun_) {
        Header more;
        more.type = FrameType::kMore;
        more.message_class = op.message_class;
        writer.publish(more, room.size());
      } else {
        writer.publish(frame.header, room.size());
      }
      op.left -= room.size();
      begun_ = op.left > 0;
    } while (op.left > 0);
    frames_.pop();
    sender.sent(op);
    return true;
  }

  Ring<Frame> frames_;
  std::optional<Header> ahead_;  // see push_ahead()
  std::size_t answers_ = 0;      // frames without an operation
  bool begun_ = false;           // a part of the front message has left
};

}  // namespace spate::bmi::protocol
