// SPDX-License-Identifier: Apache-2.0
// Small extents that lie near each other: one system call moves all of them, with a copy through a buffer, where a call
// for each would cost more.
#pragma once

#include "trove/pieces.h"

namespace spate::trove {

/// Bytes of the file that one copy covers at most. The buffer lies on the stack and in the processor's second cache.
constexpr std::size_t kSpanBytes = 65536;

/// A part of the file from the first byte of a piece to the last byte of a later one.
struct Span {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;   // of the file
  std::uint64_t stream = 0;  // of the pieces in it
  std::size_t pieces = 0;    // 0: no copy is worth it here
};

/// What one copy moves from the cursor's position on. A write writes what lies between the pieces, too: no page of the
/// file comes into a span that holds no byte of a piece, so a span never fills a hole that the pieces leave.
Span span_at(PieceCursor cursor, bool for_writing);

/// Whether spans are to be expected: such a request is for one thread, not for a device queue. O(1); a guess.
bool has_near_extents(std::span<const Extent> extents);

/// One read of the span, and a copy from there to the cursor's memory. Moves the cursor. Returns the bytes of the
/// stream; 0 at the file's end; -1: errno says why. `flags`: of preadv2.
ssize_t read_span(int fd, const Span& span, PieceCursor& cursor, int flags);

/// The same for a write: reads the span, copies the cursor's memory into it, writes it back. The caller makes sure that
/// nobody else changes the file between the two. Bytes of the file that did not exist are zeros between the pieces.
ssize_t write_span(int fd, const Span& span, PieceCursor& cursor, int flags);

}  // namespace spate::trove
