// SPDX-License-Identifier: Apache-2.0
// Small extents that lie near each other: one system call moves all of them, with a copy through a buffer, where a call
// for each would cost more.
#pragma once

#include "trove/pieces.h"

namespace spate::trove {

/// Bytes of the file that one copy covers at most. The buffer lies on the stack and in the processor's second cache.
constexpr std::size_t kSpanBytes = 65536;

/// The part of the file between the first byte of a piece and the last byte of a later one.
struct Span {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;   // of the file
  std::uint64_t stream = 0;  // of the pieces in it
  std::size_t pieces = 0;    // 0: no copy is worth it here
};

/// The span that one copy moves from the cursor's position on. A write also writes the bytes between the pieces. Every
/// page of a span holds a byte of some piece, so a write never fills a hole that the pieces leave.
Span span_at(PieceCursor cursor, bool for_writing);

/// Whether the request probably has spans: then one thread should execute it, not a device queue. O(1); a guess.
bool has_near_extents(std::span<const Extent> extents);

/// Reads the span with one call and copies it to the cursor's memory. Moves the cursor. Returns the bytes of the
/// stream; 0 at the file's end; -1 with errno on failure. `flags`: of preadv2.
ssize_t read_span(int fd, const Span& span, PieceCursor& cursor, int flags);

/// The same for a write: reads the span, copies the cursor's memory into it, writes it back. The caller makes sure that
/// nobody else changes the file between the two. Bytes of the file that did not exist are zeros between the pieces.
ssize_t write_span(int fd, const Span& span, PieceCursor& cursor, int flags);

}  // namespace spate::trove
