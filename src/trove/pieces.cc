// SPDX-License-Identifier: Apache-2.0
#include "trove/pieces.h"

namespace spate::trove {
namespace {

/// The kernel moves at most this much in one call (MAX_RW_COUNT).
constexpr std::uint64_t kMaxStepBytes = 0x7ffff000;

/// The year 2200, in ns. A later time is somebody's mistake, and would leave the counter no room to grow.
constexpr std::int64_t kLatestTime = 7'258'118'400'000'000'000;

bool uses_memory(BytestreamOp op) { return op == BytestreamOp::kRead || op == BytestreamOp::kWrite; }

/// Whether the copy has one extent, and a source that does not overlap it.
bool sound_copy(const BytestreamRequest& request) {
  if (!request.source.handle || request.extents.size() != 1) return false;
  const Extent& to = request.extents.front();
  if (request.source_offset > kMaxOffset || to.size > kMaxOffset - request.source_offset) return false;
  if (request.source != request.id) return true;
  return request.source_offset + to.size <= to.offset || to.offset + to.size <= request.source_offset;
}

}  // namespace

Errc check_request(const BytestreamRequest& request) {
  if (!request.id.handle || request.extents.size() > kMaxExtents || request.size > kMaxOffset) {
    return Errc::kInvalidArgument;
  }
  if (request.op == BytestreamOp::kDataRanges && request.max_ranges == 0) return Errc::kInvalidArgument;
  if (request.op == BytestreamOp::kCopy && !sound_copy(request)) return Errc::kInvalidArgument;
  if (request.now.ns < 0 || request.now.ns > kLatestTime) return Errc::kInvalidArgument;
  std::uint64_t total = 0;
  for (const Extent& extent : request.extents) {
    if (extent.offset > kMaxOffset || extent.size > kMaxOffset - extent.offset) return Errc::kInvalidArgument;
    if (extent.size > kMaxOffset - total) return Errc::kInvalidArgument;
    total += extent.size;
  }
  if (!uses_memory(request.op)) return Errc::kOk;
  for (const MutableByteView& piece : request.memory) {
    if (piece.size() > total) return Errc::kInvalidArgument;
    total -= piece.size();
  }
  return total == 0 ? Errc::kOk : Errc::kInvalidArgument;
}

std::uint64_t total_size(std::span<const Extent> extents) {
  std::uint64_t total = 0;
  for (const Extent& extent : extents) total += extent.size;
  return total;
}

std::uint64_t stream_before_end(std::span<const Extent> extents, std::uint64_t file_size) {
  std::uint64_t total = 0;
  for (const Extent& extent : extents) {
    if (extent.size == 0) continue;
    if (extent.offset >= file_size) break;
    total += std::min(extent.size, file_size - extent.offset);
    if (extent.offset + extent.size > file_size) break;
  }
  return total;
}

bool ascending(std::span<const Extent> extents) {
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].offset < extents[i - 1].offset + extents[i - 1].size) return false;
  }
  return true;
}

bool fit_for_direct(const BytestreamRequest& request, std::uint32_t alignment) {
  std::uint64_t bits = 0;
  for (const Extent& extent : request.extents) bits |= extent.offset | extent.size;
  for (const MutableByteView& piece : request.memory) {
    bits |= reinterpret_cast<std::uintptr_t>(piece.data()) | piece.size();
  }
  return alignment > 0 && bits % alignment == 0 && ascending(request.extents);
}

PieceCursor::PieceCursor(std::span<const Extent> extents, std::span<const MutableByteView> memory, std::uint64_t limit)
    : extents_(extents), memory_(memory), left_(limit) {
  skip_empty();
}

Step PieceCursor::next(std::span<iovec> out) const {
  Step step;
  PieceCursor at = *this;
  while (at.left_ > 0 && step.pieces < out.size() && step.bytes < kMaxStepBytes) {
    const std::uint64_t offset = at.extents_.front().offset + at.in_extent_;
    if (step.pieces == 0) step.offset = offset;
    if (offset != step.offset + step.bytes) break;
    const std::uint64_t size = std::min(at.piece_size(), kMaxStepBytes - step.bytes);
    std::byte* const memory = at.memory_.front().data() + at.in_memory_;
    out[step.pieces++] = {memory, size};
    step.bytes += size;
    at.advance_within(size);
  }
  return step;
}

void PieceCursor::advance(std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t size = std::min(bytes, piece_size());
    advance_within(size);
    bytes -= size;
  }
}

}  // namespace spate::trove
