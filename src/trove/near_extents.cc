// SPDX-License-Identifier: Apache-2.0
#include "trove/near_extents.h"

#include <unistd.h>

#include <array>
#include <cstring>

#include "base/retried.h"

namespace spate::trove {
namespace {

/// A system call costs as much as copying some 3 KiB. A read copies each byte of the span once more; a write copies it
/// twice more, for the kernel reads it, too. `bench/run pieces`, 2026-11.
constexpr std::uint64_t kReadDistance = 3072;
constexpr std::uint64_t kWriteDistance = 1536;
/// A copy pays for the extra work at the span's ends from this many pieces on.
constexpr std::size_t kFewest = 4;
constexpr std::uint64_t kPageBytes = 4096;

using SpanBuffer = std::array<std::byte, kSpanBytes>;

/// Copies the pieces that lie in the first `bytes` of the span, and moves the cursor past them.
template <typename Copy>
std::uint64_t for_each_piece(const Span& span, std::uint64_t bytes, PieceCursor& cursor, const Copy& copy) {
  std::uint64_t moved = 0;
  while (moved < span.stream) {
    const PieceCursor::Here here = cursor.here();
    const std::uint64_t at = here.offset - span.offset;
    if (at >= bytes) break;
    const std::uint64_t size = std::min({here.memory.size(), bytes - at, span.stream - moved});
    copy(at, here.memory.first(size));
    cursor.advance_within(size);
    moved += size;
  }
  return moved;
}

}  // namespace

Span span_at(PieceCursor cursor, bool for_writing) {
  const std::uint64_t distance = for_writing ? kWriteDistance : kReadDistance;
  Span span;
  std::uint64_t last = 0;  // where the last piece began
  while (cursor.left() > 0) {
    const PieceCursor::Here here = cursor.here();
    const std::uint64_t end = span.offset + span.bytes;
    if (span.pieces == 0) {
      span.offset = last = here.offset;
    } else if (here.offset < end || here.offset - last > distance ||
               (for_writing && here.offset / kPageBytes > (end - 1) / kPageBytes + 1)) {
      break;
    }
    const std::uint64_t size = here.memory.size();
    if (size > distance || here.offset + size - span.offset > kSpanBytes) break;
    span.bytes = here.offset + size - span.offset;
    span.stream += size;
    ++span.pieces;
    last = here.offset;
    cursor.advance_within(size);
  }
  if (span.pieces < kFewest) span.pieces = 0;
  return span;
}

bool has_near_extents(std::span<const Extent> extents) {
  if (extents.size() < kFewest) return false;
  const Extent& last = extents.back();
  const std::uint64_t from = extents.front().offset;
  return last.offset > from && (last.offset - from) / (extents.size() - 1) <= kWriteDistance;
}

ssize_t read_span(int fd, const Span& span, PieceCursor& cursor, int flags) {
  SpanBuffer buffer;  // not initialized: only what was read is copied
  iovec all{buffer.data(), span.bytes};
  const ssize_t got = retried([&] { return ::preadv2(fd, &all, 1, static_cast<off_t>(span.offset), flags); });
  if (got <= 0) return got;
  const auto copy = [&](std::uint64_t at, MutableByteView to) {
    std::memcpy(to.data(), buffer.data() + at, to.size());
  };
  return static_cast<ssize_t>(for_each_piece(span, static_cast<std::uint64_t>(got), cursor, copy));
}

ssize_t write_span(int fd, const Span& span, PieceCursor& cursor, int flags) {
  SpanBuffer buffer;
  iovec all{buffer.data(), span.bytes};
  std::uint64_t have = 0;
  while (have < span.bytes) {
    iovec rest{buffer.data() + have, span.bytes - have};
    const ssize_t got = retried([&] { return ::preadv2(fd, &rest, 1, static_cast<off_t>(span.offset + have), flags); });
    if (got < 0) return got;
    if (got == 0) break;
    have += static_cast<std::uint64_t>(got);
  }
  std::memset(buffer.data() + have, 0, span.bytes - have);
  PieceCursor from = cursor;
  for_each_piece(span, span.bytes, from, [&](std::uint64_t at, MutableByteView data) {
    std::memcpy(buffer.data() + at, data.data(), data.size());
  });
  const ssize_t put = retried([&] { return ::pwritev2(fd, &all, 1, static_cast<off_t>(span.offset), flags); });
  if (put <= 0) return put;
  return static_cast<ssize_t>(for_each_piece(span, static_cast<std::uint64_t>(put), cursor, [](auto, auto) {}));
}

}  // namespace spate::trove
