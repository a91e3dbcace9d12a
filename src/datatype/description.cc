// SPDX-License-Identifier: Apache-2.0
#include "datatype/description.h"

#include <algorithm>

namespace spate::datatype {
namespace {

/// offset + size <= kMaxFileBytes.
bool in_file(std::uint64_t offset, std::uint64_t size) {
  return size <= kMaxFileBytes && offset <= kMaxFileBytes - size;
}

Error too_far() { return {Errc::kFileTooBig, "request reaches beyond the largest file"}; }
Error too_long() { return {Errc::kInvalidArgument, "request names too many bytes"}; }

/// The extent of a pattern in the file, from its first to its last byte, and its length in the stream; both at most
/// kMaxFileBytes.
struct Measure {
  std::uint64_t span = 0;
  std::uint64_t stream = 0;
};

Result<Measure> measure(std::uint64_t block_bytes, std::span<const Level> levels) {
  Measure m{block_bytes, block_bytes};
  for (std::size_t k = levels.size(); k-- > 0;) {
    const Level& level = levels[k];
    if (level.count == 0) return Error(Errc::kInvalidArgument, "a level of the request has count 0");
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(level.count - 1, level.stride, &reach) ||
        __builtin_add_overflow(m.span, reach, &m.span) || m.span > kMaxFileBytes) {
      return too_far();
    }
    if (__builtin_mul_overflow(m.stream, level.count, &m.stream) || m.stream > kMaxFileBytes) return too_long();
  }
  return m;
}

/// Adds `level` inside `levels`. A level that continues the one before without a break becomes part of it.
void nest(const Level& level, std::vector<Level>& levels) {
  if (!levels.empty() && levels.back().stride == level.count * level.stride) {
    levels.back() = {levels.back().count * level.count, level.stride};
  } else {
    levels.push_back(level);
  }
}

}  // namespace

void Description::set_contiguous(std::uint64_t offset, std::uint64_t size) {
  *this = Description();
  if (size == 0) return;
  offset_ = offset;
  block_bytes_ = size;
  size_ = size;
}

Result<Description> Description::contiguous(std::uint64_t offset, std::uint64_t size) {
  if (!in_file(offset, size)) return too_far();
  if (size > kMaxTotalBytes) return too_long();
  Description d;
  d.set_contiguous(offset, size);
  return d;
}

Result<Description> Description::list(std::span<const Extent> pieces) {
  if (pieces.size() > kMaxListPieces) return Error(Errc::kInvalidArgument, "request names too many pieces");
  Description d;
  for (const Extent& piece : pieces) {
    if (!in_file(piece.offset, piece.size)) return too_far();
    if (piece.size > kMaxTotalBytes - d.size_) return too_long();
    if (piece.size == 0) continue;
    d.size_ += piece.size;
    if (!d.pieces_.empty() && d.pieces_.back().offset + d.pieces_.back().size == piece.offset) {
      d.pieces_.back().size += piece.size;
      continue;
    }
    if (!d.pieces_.empty() && d.pieces_.back().offset + d.pieces_.back().size > piece.offset) d.ordered_ = false;
    d.pieces_.push_back(piece);
  }
  if (d.pieces_.size() == 1) {
    const Extent only = d.pieces_.front();
    d.set_contiguous(only.offset, only.size);
  }
  return d;
}

Result<Description> Description::strided(std::uint64_t offset, std::uint64_t block_bytes,
                                         std::span<const Level> levels) {
  SPATE_TRY(const Measure m, measure(block_bytes, levels));
  return strided_window(offset, block_bytes, levels, Extent{0, m.stream});
}

Result<Description> Description::strided_window(std::uint64_t offset, std::uint64_t block_bytes,
                                                std::span<const Level> levels, Extent window) {
  if (levels.size() > kMaxLevels) return Error(Errc::kInvalidArgument, "request: too many levels");
  SPATE_TRY(const Measure m, measure(block_bytes, levels));
  if (!in_file(offset, m.span)) return too_far();
  if (window.size > kMaxTotalBytes) return too_long();
  if (window.offset > m.stream || window.size > m.stream - window.offset) {
    return Error(Errc::kInvalidArgument, "request: window beyond its pattern");
  }
  if (window.size == 0) return Description();
  std::vector<Level> canonical;
  for (const Level& level : levels) {
    if (level.count > 1) nest(level, canonical);
  }
  if (!canonical.empty() && canonical.back().stride == block_bytes) {
    block_bytes *= canonical.back().count;
    canonical.pop_back();
  }
  Description d;
  d.offset_ = offset;
  d.block_bytes_ = block_bytes;
  d.level_count_ = canonical.size();
  std::copy(canonical.begin(), canonical.end(), d.levels_.begin());
  d.ordered_ = d.levels_nest();
  d.cut(window.offset, window.size);
  return d;
}

Result<Description> Description::window(std::uint64_t first, std::uint64_t size) const {
  if (first > size_ || size > size_ - first) return Error(Errc::kInvalidArgument, "request: window beyond its stream");
  if (kind() != DescriptionKind::kList) {
    Description d = *this;
    d.cut(first_ + first, size);
    return d;
  }
  std::vector<Extent> kept;
  std::uint64_t stream = 0;
  for (const Extent& piece : pieces_) {
    const std::uint64_t begin = std::max(stream, first);
    const std::uint64_t end = std::min(stream + piece.size, first + size);
    if (begin < end) kept.push_back({piece.offset + begin - stream, end - begin});
    stream += piece.size;
  }
  return list(kept);
}

/// Keeps `size` bytes of the pattern's stream from `first` on. A range within one block becomes contiguous.
void Description::cut(std::uint64_t first, std::uint64_t size) {
  if (size == 0) return set_contiguous(0, 0);
  std::uint64_t block = first / block_bytes_;
  if (block != (first + size - 1) / block_bytes_) {
    first_ = first;
    size_ = size;
    return;
  }
  std::uint64_t offset = offset_ + first % block_bytes_;
  for (std::size_t k = level_count_; k-- > 0;) {
    offset += block % levels_[k].count * levels_[k].stride;
    block /= levels_[k].count;
  }
  set_contiguous(offset, size);
}

/// Whether the repetitions of each level end before the next one begins.
bool Description::levels_nest() const {
  std::uint64_t span = block_bytes_;
  for (std::size_t k = level_count_; k-- > 0;) {
    if (levels_[k].stride < span) return false;
    span += (levels_[k].count - 1) * levels_[k].stride;
  }
  return true;
}

DescriptionKind Description::kind() const {
  if (!pieces_.empty()) return DescriptionKind::kList;
  return level_count_ > 0 ? DescriptionKind::kStrided : DescriptionKind::kContiguous;
}

std::uint64_t Description::blocks() const {
  if (kind() == DescriptionKind::kList) return pieces_.size();
  if (size_ == 0) return 0;
  return (first_ + size_ - 1) / block_bytes_ - first_ / block_bytes_ + 1;
}

std::uint64_t Description::request_bytes(std::uint64_t first, std::size_t max_pieces) const {
  if (first >= size_) return 0;
  const std::uint64_t rest = size_ - first;
  if (kind() == DescriptionKind::kList) {
    if (pieces_.size() <= max_pieces) return rest;
    std::uint64_t end = 0;
    auto piece = pieces_.begin();
    while (end + piece->size <= first) end += (piece++)->size;
    for (std::size_t i = 0; i < max_pieces && piece != pieces_.end(); ++i) end += (piece++)->size;
    return end - first;
  }
  if (kind() != DescriptionKind::kStrided) return rest;
  const std::uint64_t begin = first_ + first;
  const std::uint64_t blocks = (begin + rest - 1) / block_bytes_ - begin / block_bytes_ + 1;
  if (blocks <= kMaxRequestBlocks) return rest;
  // No overflow: the stream has more blocks than this, and at most kMaxTotalBytes.
  return kMaxRequestBlocks * block_bytes_ - begin % block_bytes_;
}

}  // namespace spate::datatype
