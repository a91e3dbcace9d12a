// SPDX-License-Identifier: Apache-2.0
// Checks a request, and cuts its extents and memory pieces into the steps of system calls.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "trove/bytestream.h"

namespace spate::trove {

constexpr std::size_t kMaxExtents = 1U << 20U;
constexpr std::uint64_t kMaxOffset = (std::uint64_t{1} << 63U) - 1;

/// kOk, or kInvalidArgument: no handle, too many extents, a range beyond 2^63 - 1, a time
/// before 1970 or after 2200, or (read, write) totals that differ.
Errc check_request(const BytestreamRequest& request);

/// Sum of the extents' sizes, bytes; no overflow for a checked request.
std::uint64_t total_size(std::span<const Extent> extents);

/// How many bytes of the stream (extents in order) lie before the first one at or beyond `file_size`.
std::uint64_t stream_before_end(std::span<const Extent> extents, std::uint64_t file_size);

/// True if each extent begins at or after the end of the one before. Then no two overlap, and they may be executed in
/// any order.
bool ascending(std::span<const Extent> extents);

/// Whether all of a direct request's offsets, sizes and memory are multiples of `alignment`, and its extents ascend.
bool fit_for_direct(const BytestreamRequest& request, std::uint32_t alignment);

/// One preadv or pwritev.
struct Step {
  std::uint64_t offset = 0;
  std::size_t pieces = 0;
  std::uint64_t bytes = 0;  // 0: nothing left
};

/// A position in the stream that extents and memory both describe. Borrows both. A value.
class PieceCursor {
 public:
  PieceCursor(std::span<const Extent> extents, std::span<const MutableByteView> memory, std::uint64_t limit);

  /// The piece at the position. It ends where its extent or its memory ends, or at the limit. Only while left() > 0.
  struct Here {
    std::uint64_t offset = 0;  // in the file
    MutableByteView memory;
  };
  Here here() const {
    return {extents_.front().offset + in_extent_, memory_.front().subspan(in_memory_, piece_size())};
  }
  /// The next step, at most out.size() pieces (>= 1); adjacent extents become one step. Does not move.
  Step next(std::span<iovec> out) const;
  void advance(std::uint64_t bytes);
  /// Moves by `bytes`, which lie within here().
  void advance_within(std::uint64_t bytes) {
    in_extent_ += bytes;
    in_memory_ += bytes;
    left_ -= bytes;
    skip_empty();
  }
  /// Bytes that are left up to the limit.
  std::uint64_t left() const { return left_; }

 private:
  void skip_empty() {
    if (left_ == 0) return;
    while (!extents_.empty() && in_extent_ == extents_.front().size) {
      extents_ = extents_.subspan(1);
      in_extent_ = 0;
    }
    while (!memory_.empty() && in_memory_ == memory_.front().size()) {
      memory_ = memory_.subspan(1);
      in_memory_ = 0;
    }
    SPATE_CHECK(!extents_.empty() && !memory_.empty());
  }
  std::uint64_t piece_size() const {
    return std::min({left_, extents_.front().size - in_extent_, memory_.front().size() - in_memory_});
  }

  std::span<const Extent> extents_;
  std::span<const MutableByteView> memory_;
  std::uint64_t in_extent_ = 0;
  std::uint64_t in_memory_ = 0;
  std::uint64_t left_;
};

}  // namespace spate::trove
