// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/send_queue.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/no_pipe_signal.h"

namespace spate::bmi::tcp {
namespace {

constexpr std::uint64_t kMaxSendfile = 0x7ffff000;  // the most that one call takes
const std::array<std::byte, 64 * 1024> kZeros{};

bool of_socket(int error_number) {
  switch (error_number) {
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case ENOBUFS:
    case ENOMEM: return true;
    default: return false;
  }
}

/// Sends the pieces of small messages in one buffer. A send(2) of one piece costs less than a sendmsg(2) of two, and
/// the copy is small (the size is a guess).
ssize_t send_pieces(Outlet to, const Pieces& pieces, int flags) {
  constexpr std::size_t kGathered = 2048;
  const int socket = to.socket;
  if (to.stream != nullptr) return to.stream->write({pieces.list.data(), pieces.count});
  if (pieces.count == 1) return ::send(socket, pieces.list[0].iov_base, pieces.list[0].iov_len, flags);
  if (pieces.bytes <= kGathered) {
    std::array<std::byte, kGathered> all;  // filled up to pieces.bytes
    std::size_t size = 0;
    for (std::size_t i = 0; i < pieces.count; ++i) {
      std::memcpy(all.data() + size, pieces.list[i].iov_base, pieces.list[i].iov_len);
      size += pieces.list[i].iov_len;
    }
    return ::send(socket, all.data(), size, flags);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.list.data());
  message.msg_iovlen = pieces.count;
  return ::sendmsg(socket, &message, flags);
}

ssize_t send_bytes(Outlet to, const std::byte* data, std::uint64_t size, int flags) {
  if (to.stream == nullptr) return ::send(to.socket, data, size, flags);
  const iovec piece{const_cast<std::byte*>(data), size};
  return to.stream->write({&piece, 1});
}

/// Whether more of the frame follows the current segment, as a flag for send(2). The kernel then need not send a small
/// packet yet.
int more_after_segment(const Op& op, std::uint64_t bytes) {
  SegmentCursor rest = op.cursor;
  rest.advance(bytes);
  return rest.done() ? 0 : MSG_MORE;
}

}  // namespace

void SendQueue::push(const protocol::Header& header, std::uint32_t credit, Op* op) {
  const std::uint64_t position = frames_.push(Frame{encode(header, credit), op, false});
  if (op != nullptr) {
    op->position = position;
    op->lend = lends_ && op->size >= kLendFrom;
    op->uses = 0;
  } else {
    ++answers_;
  }
}

bool SendQueue::withdraw(Op& op, const protocol::Header* substitute) {
  if (op.position == frames_.first() && header_sent_ > 0) return false;
  Frame& frame = frames_.at(op.position);
  frame.op = nullptr;
  frame.skipped = substitute == nullptr;
  if (substitute != nullptr) frame.header = encode(*substitute, 0);
  ++answers_;  // counted like an answer until it leaves the queue
  return true;
}

/// Returns the limit, or up to `more` above it if the front frame ends there. Otherwise the frame's end would cost a
/// turn, a system call and a wake of the other side: for example the last bytes of each message of 128 KiB in slices of
/// 128 KiB, because of its header.
std::uint64_t SendQueue::to_its_end(const Frame& front, std::uint64_t limit, std::uint64_t more) const {
  const std::uint64_t rest =
      kHeaderSize - header_sent_ + (front.op == nullptr ? 0 : front.op->cursor.rest(limit + more + 1));
  return rest > limit && rest <= limit + more ? rest : limit;
}

FlushStatus SendQueue::flush(Outlet to, SendObserver& observer, SendScratch& scratch, std::uint64_t limit) {
  if (to.stream == nullptr) return flush_frames(to, observer, scratch, limit);
  if (const FlushStatus before = flush_stream(*to.stream); before != FlushStatus::kEmpty) return before;
  const FlushStatus status = flush_frames(to, observer, scratch, limit);
  if (status != FlushStatus::kEmpty && status != FlushStatus::kMore) return status;
  const FlushStatus after = flush_stream(*to.stream);
  return after == FlushStatus::kEmpty ? status : after;
}

/// Sends what the stream has encrypted and kept.
FlushStatus SendQueue::flush_stream(tls::Stream& stream) {
  const int error_number = stream.flush();
  return error_number == 0 ? FlushStatus::kEmpty : failed(error_number, FlushStatus::kLost).status;
}

FlushStatus SendQueue::flush_frames(Outlet to, SendObserver& observer, SendScratch& scratch, std::uint64_t limit) {
  std::optional<NoPipeSignal> quiet;
  for (std::uint64_t left = limit; !frames_.empty();) {
    Frame& front = frames_.front();
    if (front.skipped) {
      finish_front(observer);
      continue;
    }
    const bool in_payload = header_sent_ == kHeaderSize;
    const bool in_file = in_payload && front.op->cursor.at_file();
    if (left == 0) return FlushStatus::kMore;
    left = to_its_end(front, left, limit / 8);
    if (in_file && !quiet) quiet.emplace();
    const Written written = in_file                        ? write_file(to, *front.op, scratch, left)
                            : in_payload && front.op->lend ? write_lent(to.socket, *front.op, left)
                                                           : write_memory(to, left);
    if (written.bytes > 0) consume(written.bytes, observer);
    if (quiet && written.status == FlushStatus::kLost) quiet->raised = error_number_ == EPIPE;
    if (written.status != FlushStatus::kEmpty) return written.status;
    left -= std::min(left, written.bytes);
  }
  return FlushStatus::kEmpty;
}

/// Collects the next frames, up to a file, to memory that will be lent, to `limit` bytes or to the most pieces. True if
/// it stopped before one of these.
bool SendQueue::gather(Pieces& pieces, std::uint64_t limit) {
  std::uint64_t header_sent = header_sent_;
  for (std::uint64_t p = frames_.first(); p != frames_.end(); ++p) {
    const Frame& frame = frames_.at(p);
    if (frame.skipped) continue;
    if (pieces.count + 1 >= Pieces::kMax || pieces.bytes >= limit) return false;
    if (header_sent < kHeaderSize) pieces.add(frame.header.data() + header_sent, kHeaderSize - header_sent);
    header_sent = 0;
    if (frame.op == nullptr || frame.op->cursor.done()) continue;
    if (frame.op->lend) return true;  // a header is copied, because its frame is freed before the kernel is done
    SegmentCursor rest = frame.op->cursor;
    rest.advance(rest.gather(pieces, limit - std::min(limit, pieces.bytes)));
    if (!rest.done()) return rest.at_file();
  }
  return false;
}

SendQueue::Written SendQueue::write_memory(Outlet to, std::uint64_t limit) {
  Pieces pieces;
  const bool file_follows = gather(pieces, limit);
  const ssize_t n = send_pieces(to, pieces, MSG_NOSIGNAL | MSG_DONTWAIT | (file_follows ? MSG_MORE : 0));
  if (n < 0) return failed(errno, FlushStatus::kLost);
  // After a short write the socket is full, and an edge tells when it has room again.
  const auto bytes = static_cast<std::uint64_t>(n);
  return Written{bytes, bytes == pieces.bytes ? FlushStatus::kEmpty : FlushStatus::kBlocked};
}

/// The kernel takes the pages and sends from them. A report (Reports) says when it is done.
SendQueue::Written SendQueue::write_lent(int socket, Op& op, std::uint64_t limit) {
  Pieces pieces;
  op.cursor.gather(pieces, limit);
  msghdr message{};
  message.msg_iov = pieces.list.data();
  message.msg_iovlen = pieces.count;
  const ssize_t n = ::sendmsg(socket, &message, MSG_ZEROCOPY | MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && errno == ENOBUFS) {  // the kernel lends no more memory, or locks no more: the rest is copied
    op.lend = false;
    return {};
  }
  if (n < 0) return failed(errno, FlushStatus::kLost);
  const auto bytes = static_cast<std::uint64_t>(n);
  zero_copy_sends_.begun(op.id, op.position);
  ++op.uses;
  bytes_lent_ += bytes;
  return Written{bytes, bytes == pieces.bytes ? FlushStatus::kEmpty : FlushStatus::kBlocked};
}

SendQueue::Written SendQueue::write_file(Outlet to, Op& op, SendScratch& scratch, std::uint64_t limit) {
  if (op.past_end) return write_zeros(to, op);
  if (op.without_sendfile || to.stream != nullptr) return write_by_reading(to, op, scratch);
  const SegmentCursor& cursor = op.cursor;
  auto offset = static_cast<off_t>(cursor.segment().offset + cursor.offset());
  const std::uint64_t want = std::min({cursor.left_in_segment(), kMaxSendfile, limit});
  const ssize_t n = ::sendfile(to.socket, cursor.segment().fd, &offset, want);
  if (n > 0) return Written{static_cast<std::uint64_t>(n), FlushStatus::kEmpty};
  if (n == 0) {
    op.past_end = true;
    return write_zeros(to, op);
  }
  const int error_number = errno;
  if (error_number == EAGAIN || error_number == EINTR || of_socket(error_number)) {
    return failed(error_number, FlushStatus::kLost);
  }
  op.without_sendfile = true;  // for example EINVAL; if the file cannot be read either, the next call shows it
  return write_by_reading(to, op, scratch);
}

SendQueue::Written SendQueue::write_by_reading(Outlet to, Op& op, SendScratch& scratch) {
  const SegmentCursor& cursor = op.cursor;
  const std::uint64_t want = std::min<std::uint64_t>(cursor.left_in_segment(), scratch.size());
  const ssize_t got =
      ::pread(cursor.segment().fd, scratch.data(), want, static_cast<off_t>(cursor.segment().offset + cursor.offset()));
  if (got == 0) {
    op.past_end = true;
    return write_zeros(to, op);
  }
  if (got < 0) {
    if (errno == EINTR) return {};
    error_number_ = errno;
    return Written{0, FlushStatus::kBadFile};
  }
  const auto bytes = static_cast<std::uint64_t>(got);
  const ssize_t n = send_bytes(to, scratch.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT | more_after_segment(op, bytes));
  if (n < 0) return failed(errno, FlushStatus::kLost);
  return Written{static_cast<std::uint64_t>(n), FlushStatus::kEmpty};
}

SendQueue::Written SendQueue::write_zeros(Outlet to, Op& op) {
  const std::uint64_t bytes = std::min<std::uint64_t>(op.cursor.left_in_segment(), kZeros.size());
  const ssize_t n = send_bytes(to, kZeros.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT | more_after_segment(op, bytes));
  if (n < 0) return failed(errno, FlushStatus::kLost);
  return Written{static_cast<std::uint64_t>(n), FlushStatus::kEmpty};
}

SendQueue::Written SendQueue::failed(int error_number, FlushStatus unless_socket) {
  if (error_number == EINTR) return {};
  if (error_number == EAGAIN || error_number == EWOULDBLOCK) return Written{0, FlushStatus::kBlocked};
  error_number_ = error_number;
  return Written{0, unless_socket};
}

void SendQueue::consume(std::uint64_t bytes, SendObserver& observer) {
  bytes_sent_ += bytes;
  while (!frames_.empty()) {
    Frame& front = frames_.front();
    if (!front.skipped) {
      const std::uint64_t of_header = std::min<std::uint64_t>(bytes, kHeaderSize - header_sent_);
      header_sent_ += of_header;
      bytes -= of_header;
      if (header_sent_ < kHeaderSize) return;
      Op* op = front.op;
      if (op != nullptr && !op->cursor.done()) {
        // Stops at the beginning of a file, which another call sends.
        while (bytes > 0 && !op->cursor.done()) {
          const std::uint64_t step = std::min(bytes, op->cursor.left_in_segment());
          const std::uint64_t left = op->cursor.left_in_segment();
          op->cursor.advance(step);
          bytes -= step;
          if (step == left) op->past_end = false;
        }
        if (!op->cursor.done()) return;
      }
    }
    finish_front(observer);
    if (bytes == 0) return;
  }
}

void SendQueue::finish_front(SendObserver& observer) {
  Op* op = frames_.front().op;
  frames_.pop();
  header_sent_ = 0;
  if (op != nullptr) {
    observer.sent(*op);
  } else {
    --answers_;
  }
}

}  // namespace spate::bmi::tcp
