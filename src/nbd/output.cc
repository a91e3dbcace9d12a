// SPDX-License-Identifier: Apache-2.0
#include "nbd/output.h"

#include <algorithm>

#include "base/check.h"

namespace spate::nbd {

Buffer ReplyBuffers::take() {
  ++in_use_;
  if (free_.empty()) return Buffer(kBytes, Buffer::kPageAlignment);
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void ReplyBuffers::give_back(Buffer buffer) {
  --in_use_;
  if (free_.size() < kKept) free_.push_back(std::move(buffer));
}

Output::~Output() { clear(); }

void Output::clear() {
  while (!segments_.empty()) drop_front();
}

std::byte* Output::reserve(std::size_t size) {
  SPATE_CHECK(size <= ReplyBuffers::kBytes);
  if (segments_.empty() || !segments_.back().pooled || ReplyBuffers::kBytes - segments_.back().end < size) {
    segments_.emplace_back();
    segments_.back().buffer = buffers_.take();
    segments_.back().pooled = true;
  }
  Segment& last = segments_.back();
  std::byte* const at = last.buffer.data() + last.end;
  last.end += size;
  memory_ += size;
  return at;
}

void Output::unreserve(std::size_t size) {
  Segment& last = segments_.back();
  SPATE_CHECK(last.end - last.begin >= size);
  last.end -= size;
  memory_ -= size;
  if (last.begin == last.end) {
    buffers_.give_back(std::move(last.buffer));
    segments_.pop_back();
  }
}

void Output::add(ByteView bytes) {
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), ReplyBuffers::kBytes);
    std::memcpy(reserve(n), bytes.data(), n);
    bytes = bytes.subspan(n);
  }
}

void Output::add(Buffer bytes, MemoryBudget::Hold hold) {
  memory_ += bytes.size();
  held_ += hold.bytes();
  segments_.emplace_back();
  segments_.back().hold = std::move(hold);
  segments_.back().end = bytes.size();
  segments_.back().buffer = std::move(bytes);
}

void Output::add_file(const FileReply& reply) {
  segments_.emplace_back();
  segments_.back().file = reply;
}

void Output::drop_front() {
  Segment& front = segments_.front();
  memory_ -= front.end - front.begin;
  if (front.pooled) buffers_.give_back(std::move(front.buffer));
  if (front.hold.bytes() > 0) {
    held_ -= front.hold.bytes();
    ++let_go_;
  }
  segments_.pop_front();
}

Result<void> Output::flush(Transport& transport, std::size_t most) {
  for (std::size_t done = 0; !segments_.empty() && done < most;) {
    SPATE_TRY(const std::size_t n, segments_.front().is_file() ? send_file(transport) : send_bytes(transport));
    done += n;
  }
  return {};
}

Result<std::size_t> Output::send_file(Transport& transport) {
  Segment& front = segments_.front();
  FileReply& file = front.file;
  if (front.file_gone) return file_ended_early(front);
  auto sent = transport.send_file(file.fd, file.offset, file.size);
  if (sent.code() == Errc::kIoError || (sent && *sent == 0)) return file_ended_early(front);
  if (!sent) return sent.error();
  file.offset += *sent;
  file.size -= static_cast<std::uint32_t>(*sent);
  if (file.size > 0) return *sent;
  if (!file.structured) {
    drop_front();
    return *sent;
  }
  put_chunk(front.trailer.data(), ChunkHeader{Chunk::kNone, true, file.cookie, 0});
  front.trailer_end = kChunkBytes;
  return *sent;
}

/// The announced rest of the chunk must be sent: send zeros.
Result<std::size_t> Output::file_ended_early(Segment& segment) {
  if (!segment.file.structured) return Error(Errc::kIoError, "the file has become shorter");
  constexpr std::size_t kPiece = 64UL * 1024;
  Segment zeros;
  zeros.buffer = Buffer(std::min<std::size_t>(segment.file.size, kPiece));
  zeros.end = zeros.buffer.size();
  std::memset(zeros.buffer.data(), 0, zeros.buffer.size());
  segment.file.size -= static_cast<std::uint32_t>(zeros.end);
  segment.file_gone = true;  // the rest comes here again
  memory_ += zeros.end;
  if (segment.file.size == 0) {
    put_error_chunk(segment.trailer.data(), segment.file.cookie, Failure::kIo);
    segment.trailer_end = kErrorChunkBytes;
  }
  segments_.push_front(std::move(zeros));
  return std::size_t{0};
}

Result<std::size_t> Output::send_bytes(Transport& transport) {
  std::array<iovec, 64> pieces;
  std::size_t count = 0;
  auto at = segments_.begin();
  for (; at != segments_.end() && !at->is_file() && count < pieces.size(); ++at) {
    const ByteView bytes = at->bytes();
    pieces[count++] = iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  SPATE_TRY(const std::size_t n, transport.write(std::span(pieces).first(count), at != segments_.end()));
  sent(n);
  return n;
}

void Output::sent(std::size_t bytes) {
  while (bytes > 0) {
    Segment& front = segments_.front();
    const std::size_t n = std::min(bytes, front.bytes().size());
    bytes -= n;
    if (front.trailer_begin < front.trailer_end) {
      front.trailer_begin += n;
    } else {
      front.begin += n;
      memory_ -= n;
    }
    if (front.bytes().empty()) drop_front();
  }
}

}  // namespace spate::nbd
