// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/copy.h"

namespace spate::bmi::tcp {
namespace {

// A payload rest of this size is received straight into its place, which makes the iovec longer. A smaller rest is
// copied out of the scratch buffer, so that one system call receives many messages of some KiB (bench/run data).
constexpr std::uint64_t kDirectBytes = 16 * 1024;
// How much of a large payload must be there before this side is woken. bench/run data, reads of 1 MiB: woken for each
// packet 2.4 GB/s, from 256 KiB on 3.7, from 512 KiB on 5.1. The sender pays for each wake.
constexpr std::uint64_t kWakeBytes = 512 * 1024;

/// A stream may have read this many bytes of a payload's rest ahead. The socket then does not have them any more.
constexpr std::uint64_t kStreamReadsAhead = 128 * 1024;

ssize_t receive_pieces(int socket, Pieces& pieces) {
  if (pieces.count == 1) return ::recv(socket, pieces.list[0].iov_base, pieces.list[0].iov_len, MSG_DONTWAIT);
  msghdr message{};
  message.msg_iov = pieces.list.data();
  message.msg_iovlen = pieces.count;
  return ::recvmsg(socket, &message, MSG_DONTWAIT);
}

}  // namespace

bool Connection::send_whole(ByteView bytes) {
  const Outlet to = outlet();
  const auto size = static_cast<ssize_t>(bytes.size());
  if (to.stream == nullptr) return ::send(to.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == size;
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return to.stream->write({&piece, 1}) == size && to.stream->flush() == 0;
}

void Connection::close() {
  if (stream_ != nullptr) stream_->end();
  stream_.reset();
  if (queue_.has_lent()) {
    const linger at_once{1, 0};
    std::ignore = ::setsockopt(socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  socket_.reset();
}

bool Connection::moves_much() {
  constexpr std::uint64_t kMuch = 64 * 1024;
  const protocol::Op* leaving = queue_.front_op();
  return (incoming_.active && incoming_.left >= kMuch) || (leaving != nullptr && leaving->size >= kMuch);
}

std::uint64_t Connection::gather_direct(Pieces& pieces, std::uint64_t limit) {
  if (incoming_.left < kDirectBytes || lands_slowly()) return 0;
  const std::uint64_t most = std::min(incoming_.left, limit);
  if (incoming_.op != nullptr) return incoming_.op->cursor.gather(pieces, most);
  if (incoming_.arrived == nullptr) return 0;
  pieces.add(incoming_.arrived->payload.data() + arrived_so_far(), most);
  return most;
}

/// Whether the kernel would take long to copy the payload to its place (base/copy.h). A payload from this host, sent by
/// sendfile, comes in pages of a file, and large messages begin at a page. The alignment of other payloads is unknown,
/// so there is nothing to gain.
bool Connection::lands_slowly() const {
  if (!from_this_host || incoming_.op == nullptr) return false;
  const SegmentCursor& cursor = incoming_.op->cursor;
  const std::byte* const to = cursor.segment().memory + cursor.offset();
  return copies_slowly(reinterpret_cast<std::uintptr_t>(to), arrived_so_far());
}

std::uint64_t Connection::read_ahead(std::uint64_t direct) const {
  constexpr std::uint64_t kScratch = sizeof(ReceiveScratch);
  if (direct == 0 && incoming_.left >= kDirectBytes) return std::min(incoming_.left, kScratch);
  // The payload does not fit the iovec, so the following bytes are payload, too.
  if (direct > 0 && direct < incoming_.left) return 0;
  // Among large messages only the next header is read with a payload. So no payload is copied.
  if (direct > 0) return handler_->header_size();
  if (incoming_.left > 0 && incoming_.header.length >= kDirectBytes && incoming_.left < kDirectBytes) {
    return incoming_.left + handler_->header_size();
  }
  return incoming_.left == 0 && last_payload_ >= kDirectBytes ? handler_->header_size() - header_fill_ : kScratch;
}

ReadStatus Connection::read(ReceiveScratch& scratch, std::uint64_t limit) {
  const ReadStatus status = read_some(scratch, limit);
  if (status == ReadStatus::kDrained && !closed) wake_for_payload();
  return status;
}

/// Sets how many bytes must have arrived before the socket counts as readable. In the middle of a large payload this is
/// a good part of the rest, so that not every packet causes an event.
void Connection::wake_for_payload() {
  const bool large = incoming_.active && incoming_.left >= kDirectBytes && !closed_for_input_;
  const std::uint64_t ahead = large && stream_ != nullptr ? std::min(incoming_.left - 1, kStreamReadsAhead) : 0;
  const std::uint64_t wanted = large ? std::min(incoming_.left - ahead, kWakeBytes) : 1;
  if (wanted == low_water_) return;
  const int value = static_cast<int>(wanted);
  if (::setsockopt(socket(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value) == 0) low_water_ = wanted;
}

ReadStatus Connection::read_some(ReceiveScratch& scratch, std::uint64_t limit) {
  for (std::uint64_t total = 0; total < limit;) {
    Pieces pieces;
    const std::uint64_t direct = gather_direct(pieces, limit - total);
    if (!pieces.full()) pieces.add(scratch.data(), read_ahead(direct));
    const ssize_t n =
        stream_ == nullptr ? receive_pieces(socket(), pieces) : stream_->read({pieces.list.data(), pieces.count});
    if (n == 0) return ReadStatus::kLost;
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? ReadStatus::kDrained : ReadStatus::kLost;
    }
    const auto got = static_cast<std::uint64_t>(n);
    bytes_read_ += got;
    const std::uint64_t placed = std::min(got, direct);
    if (placed > 0) {
      if (incoming_.op != nullptr) incoming_.op->cursor.advance(placed);
      incoming_.left -= placed;
      if (incoming_.left == 0) finish_payload();
    }
    if (!parse(scratch.data(), got - placed)) return ReadStatus::kProtocol;
    if (closed || closed_for_input_) return ReadStatus::kDrained;
    // After a short read the socket is empty, and the next event reports more. In the middle of a large payload more
    // usually comes at once, so another read is cheaper than the way through epoll.
    const bool ended = peer_closed || (stream_ != nullptr && stream_->ended());
    if (got < pieces.bytes && !ended && incoming_.left < kDirectBytes) return ReadStatus::kDrained;
    total += got;
  }
  return ReadStatus::kMore;
}

void Connection::finish_payload() {
  last_payload_ = incoming_.header.length;
  handler_->on_payload(*this);
}

void Connection::store(const std::byte* data, std::uint64_t size) {
  if (incoming_.op != nullptr) {
    incoming_.op->cursor.copy_in(data, size);
  } else if (incoming_.arrived != nullptr && size > 0) {
    std::memcpy(incoming_.arrived->payload.data() + arrived_so_far(), data, size);
  }
  incoming_.left -= size;
}

bool Connection::parse(const std::byte* data, std::uint64_t size) {
  while (size > 0 && !closed && !closed_for_input_) {
    if (incoming_.active) {
      const std::uint64_t take = std::min(size, incoming_.left);
      store(data, take);
      data += take;
      size -= take;
      if (incoming_.left == 0) finish_payload();
      continue;
    }
    const std::size_t need = handler_->header_size();
    const std::byte* header = data;
    if (header_fill_ > 0 || size < need) {
      const std::size_t take = std::min<std::size_t>(size, need - header_fill_);
      std::memcpy(header_.data() + header_fill_, data, take);
      header_fill_ += take;
      data += take;
      size -= take;
      if (header_fill_ < need) return true;
      header = header_.data();
      header_fill_ = 0;
    } else {
      data += need;
      size -= need;
    }
    if (!handler_->on_header(*this, header)) return false;
    if (incoming_.active && incoming_.left == 0) finish_payload();
  }
  return true;
}

}  // namespace spate::bmi::tcp
