// SPDX-License-Identifier: Apache-2.0
// SendQueue: the frames that wait to leave by one connection. It writes as many as possible with each system call.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "bmi/protocol/op.h"
#include "bmi/ring.h"
#include "bmi/tcp/frame.h"
#include "bmi/tcp/zero_copy_sends.h"
#include "tls/stream.h"

namespace spate::bmi::tcp {

/// How a flush ended.
enum class FlushStatus : std::uint8_t {
  kEmpty,    // everything left
  kMore,     // the limit was reached: call again
  kBlocked,  // the socket takes no more for now: call again when it is writable
  kLost,     // the connection broke
  kBadFile,  // a promised file segment cannot be read, so the connection must be dropped
};

/// Scratch memory for reading files that sendfile cannot send; shared by the queues of a module.
using SendScratch = std::array<std::byte, 64 * 1024>;

/// Where the bytes of a connection go: to its socket, or through `stream`, which encrypts them for it.
struct Outlet {
  Outlet(int its_socket, tls::Stream* its_stream = nullptr)
      : socket(its_socket), stream(its_stream) {}  // NOLINT(google-explicit-constructor)
  int socket;
  tls::Stream* stream;
};

/// Not thread-safe: the module's lock guards it.
class SendQueue {
 public:
  /// A message of at least this many bytes is lent to the kernel if lending is on. Smaller messages cost less when they
  /// are copied. The kernel's documentation says "around 10 KB"; this is a guess above it, since each call causes a
  /// wake.
  static constexpr std::uint64_t kLendFrom = 64 * 1024;

  /// Whether large messages that are pushed from now on are sent without a copy (MSG_ZEROCOPY). The socket must support
  /// it: ZeroCopySends::enable().
  void lend(bool on) { lends_ = on; }
  /// Whether the kernel still reads memory that it was lent.
  bool has_lent() const { return !zero_copy_sends_.empty(); }
  bool has_lent(std::uint64_t position) { return zero_copy_sends_.any_of(position); }
  ZeroCopySends::Reports take_reports(int socket, SendObserver& observer) {
    return zero_copy_sends_.take(socket, observer);
  }
  /// Bytes that the socket has accepted without a copy.
  std::uint64_t bytes_lent() const { return bytes_lent_; }

  /// Appends a frame. If `op` is given, the payload is what its cursor has not passed. `credit`: see FrameHeader.
  void push(const protocol::Header& header, std::uint32_t credit, Op* op);
  /// Removes a frame unless a part of it has left, and puts `substitute`, if any, in its place. Returns whether it did.
  bool withdraw(Op& op, const protocol::Header* substitute);

  /// Writes until the queue is empty, the socket is full, or the socket has accepted `limit` bytes (> 0). It may exceed
  /// the limit by some headers, or by an eighth if the current frame ends there.
  FlushStatus flush(Outlet to, SendObserver& observer, SendScratch& scratch, std::uint64_t limit);

  bool empty() const { return frames_.empty(); }
  /// The operation whose frame is leaving, or null.
  Op* front_op() { return frames_.empty() ? nullptr : frames_.front().op; }
  /// Whether the frame at `position` is still leaving.
  bool is_front(std::uint64_t position) const { return !frames_.empty() && frames_.first() == position; }
  /// Frames without an operation in the queue. These are this side's answers: a large number shows a peer that causes
  /// answers and does not read them.
  std::size_t answers() const { return answers_; }
  /// Bytes that the socket has accepted, including headers.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  /// errno of the last kLost or kBadFile.
  int error_number() const { return error_number_; }

 private:
  struct Frame {
    HeaderBytes header{};
    Op* op = nullptr;
    bool skipped = false;
  };
  /// The result of one system call: the bytes that the socket took, or why it took none.
  struct Written {
    std::uint64_t bytes = 0;
    FlushStatus status = FlushStatus::kEmpty;  // kEmpty: continue
  };

  FlushStatus flush_frames(Outlet to, SendObserver& observer, SendScratch& scratch, std::uint64_t limit);
  FlushStatus flush_stream(tls::Stream& stream);
  Written write_memory(Outlet to, std::uint64_t limit);
  Written write_lent(int socket, Op& op, std::uint64_t limit);
  Written write_file(Outlet to, Op& op, SendScratch& scratch, std::uint64_t limit);
  Written write_by_reading(Outlet to, Op& op, SendScratch& scratch);
  Written write_zeros(Outlet to, Op& op);
  bool gather(Pieces& pieces, std::uint64_t limit);
  std::uint64_t to_its_end(const Frame& front, std::uint64_t limit, std::uint64_t more) const;
  void consume(std::uint64_t bytes, SendObserver& observer);
  void finish_front(SendObserver& observer);
  Written failed(int error_number, FlushStatus unless_socket);

  Ring<Frame> frames_;
  std::uint64_t header_sent_ = 0;  // bytes of the front frame's header that left
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t bytes_lent_ = 0;
  bool lends_ = false;
  ZeroCopySends zero_copy_sends_;
  std::size_t answers_ = 0;
  int error_number_ = 0;
};

}  // namespace spate::bmi::tcp
