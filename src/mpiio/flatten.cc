// SPDX-License-Identifier: Apache-2.0
#include "mpiio/flatten.h"

#include <algorithm>

namespace spate::mpiio {
namespace {

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

struct Bounds {
  std::int64_t lb = 0;
  std::int64_t ub = 0;
  bool any = false;
  /// Adds `count` types side by side at `displacement`.
  void add(const Flat& type, std::uint64_t count, std::int64_t displacement) {
    if (count == 0) return;
    const std::int64_t last = displacement + as_signed(count - 1) * type.extent();
    const std::int64_t low = std::min(displacement, last) + type.lb();
    const std::int64_t high = std::max(displacement, last) + type.lb() + type.extent();
    lb = any ? std::min(lb, low) : low;
    ub = any ? std::max(ub, high) : high;
    any = true;
  }
};

}  // namespace

Flat Flat::basic(std::uint64_t size) {
  Flat flat;
  flat.add_piece(0, size);
  flat.size_ = size;
  flat.extent_ = as_signed(size);
  return flat;
}

void Flat::set_bounds(std::int64_t lb, std::int64_t ub) {
  lb_ = lb;
  extent_ = ub - lb;
}

void Flat::add_piece(std::int64_t offset, std::uint64_t size) {
  if (size == 0) return;
  if (!pieces_.empty() && pieces_.back().offset + as_signed(pieces_.back().size) == offset) {
    pieces_.back().size += size;
    return;
  }
  pieces_.push_back({offset, size, unit()});
}

/// Adds a level outside of all others.
void Flat::prepend(Level level) {
  size_ *= level.count;
  if (level.count == 1) return;
  if (levels_.empty() && pieces_.size() == 1 && level.stride == as_signed(pieces_.front().size)) {
    pieces_.front().size *= level.count;
    return;
  }
  if (!levels_.empty() && level.stride == levels_.front().stride * as_signed(levels_.front().count)) {
    levels_.front().count *= level.count;
    return;
  }
  levels_.insert(levels_.begin(), level);
}

/// Turns the innermost level into pieces. False: these would be too many.
bool Flat::expand_innermost() {
  const Level level = levels_.back();
  if (level.count > kMaxPieces / pieces_.size()) return false;
  levels_.pop_back();
  const std::vector<Piece> once = std::move(pieces_);
  pieces_.clear();
  for (std::uint64_t i = 0; i < level.count; ++i) {
    for (const Piece& piece : once) add_piece(piece.offset + as_signed(i) * level.stride, piece.size);
  }
  return true;
}

Flat Flat::resized(std::int64_t lb, std::int64_t extent) const {
  Flat flat = *this;
  flat.lb_ = lb;
  flat.extent_ = extent;
  return flat;
}

std::optional<Flat> Flat::hvector(std::uint64_t count, std::uint64_t block_length, std::int64_t stride) const {
  Flat flat;
  Bounds bounds;
  if (count > 0) {
    bounds.add(*this, block_length, 0);
    bounds.add(*this, block_length, as_signed(count - 1) * stride);
  }
  if (count > 0 && block_length > 0 && size_ > 0) {
    flat = *this;
    flat.prepend({block_length, extent_});
    flat.prepend({count, stride});
    while (flat.levels_.size() > kMaxLevels) {
      if (!flat.expand_innermost()) return std::nullopt;
    }
  }
  flat.set_bounds(bounds.lb, bounds.ub);
  return flat;
}

/// Adds the bytes of `type` at `displacement` as pieces.
bool Flat::append_tile(const Flat& type, std::int64_t displacement) {
  Walk walk(type, displacement, 0, type.size());
  while (const auto run = walk.next()) {
    if (pieces_.size() >= kMaxPieces) return false;
    add_piece(run->offset, run->size);
  }
  size_ += type.size();
  return true;
}

std::optional<Flat> Flat::structure(std::span<const Member> members) {
  Flat flat;
  Bounds bounds;
  const Member* only = nullptr;
  std::size_t with_bytes = 0;
  for (const Member& member : members) {
    bounds.add(*member.type, member.count, member.displacement);
    if (member.count == 0 || member.type->size() == 0) continue;
    only = &member;
    ++with_bytes;
  }
  if (with_bytes == 1) {  // the type keeps its levels
    auto block = only->type->hvector(1, only->count, 0);
    if (!block) return std::nullopt;
    flat = *std::move(block);
    for (Piece& piece : flat.pieces_) piece.offset += only->displacement;
  } else {
    for (const Member& member : members) {
      if (member.count == 0 || member.type->size() == 0) continue;
      const auto block = member.type->hvector(1, member.count, 0);
      if (!block || !flat.append_tile(*block, member.displacement)) return std::nullopt;
    }
  }
  flat.set_bounds(bounds.lb, bounds.ub);
  return flat;
}

std::optional<Flat> Flat::hindexed(std::span<const std::uint64_t> block_lengths,
                                   std::span<const std::int64_t> displacements) const {
  std::vector<Member> members;
  bool regular = block_lengths.size() > 1;
  for (std::size_t i = 0; i < block_lengths.size(); ++i) {
    members.push_back({this, block_lengths[i], displacements[i]});
    if (i > 0)
      regular = regular && block_lengths[i] == block_lengths[0] &&
                displacements[i] - displacements[i - 1] == displacements[1] - displacements[0];
  }
  if (!regular) return structure(members);
  auto block = hvector(block_lengths.size(), block_lengths[0], displacements[1] - displacements[0]);
  if (!block) return std::nullopt;
  const Member whole{&*block, 1, displacements[0]};
  return structure({&whole, 1});
}

/// As hindexed(), with starts that count elements.
std::optional<Flat> Flat::place_runs(std::span<const std::uint64_t> lengths,
                                     std::span<const std::int64_t> starts) const {
  std::vector<std::int64_t> displacements;
  for (const std::int64_t start : starts) displacements.push_back(start * extent_);
  return hindexed(lengths, displacements);
}

std::optional<Flat> Flat::subarray(std::span<const Dimension> fastest_first) const {
  std::optional<Flat> flat = *this;
  for (const Dimension& dimension : fastest_first) {
    const std::int64_t start = as_signed(dimension.start);
    const std::int64_t whole = as_signed(dimension.size) * flat->extent_;
    flat = flat->place_runs({&dimension.sub_size, 1}, {&start, 1});
    if (!flat) return flat;
    flat = flat->resized(0, whole);
  }
  return flat;
}

std::optional<Flat> Flat::darray(std::span<const DistributedDimension> fastest_first) const {
  std::optional<Flat> flat = *this;
  for (const DistributedDimension& d : fastest_first) {
    std::uint64_t block = d.argument;
    if (block == 0) block = d.distribution == ArrayDistribution::kBlock ? (d.size + d.processes - 1) / d.processes : 1;
    if (d.distribution == ArrayDistribution::kNone) block = d.size;
    const std::uint64_t step = d.distribution == ArrayDistribution::kNone ? d.size : block * d.processes;
    std::vector<std::uint64_t> lengths;
    std::vector<std::int64_t> starts;
    const std::uint64_t first = d.distribution == ArrayDistribution::kNone ? 0 : d.place * block;
    for (std::uint64_t at = first; at < d.size; at += step) {
      if (lengths.size() >= kMaxPieces) return std::nullopt;
      lengths.push_back(std::min(block, d.size - at));
      starts.push_back(as_signed(at));
    }
    const std::int64_t whole = as_signed(d.size) * flat->extent_;
    flat = flat->place_runs(lengths, starts);
    if (!flat) return flat;
    flat = flat->resized(0, whole);
  }
  return flat;
}

bool Flat::dense() const {
  return levels_.empty() && pieces_.size() == 1 && extent_ == as_signed(pieces_.front().size);
}

bool Flat::ascends() const {
  if (pieces_.empty()) return true;
  std::int64_t end = 0;
  for (const Piece& piece : pieces_) {
    if (piece.offset < end) return false;
    end = piece.offset + as_signed(piece.size);
  }
  std::int64_t span = end - pieces_.front().offset;  // span of the part that a level would repeat
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    std::int64_t rest = 0;
    if (level->stride < span || __builtin_mul_overflow(as_signed(level->count - 1), level->stride, &rest) ||
        __builtin_add_overflow(span, rest, &span))
      return false;
  }
  return extent_ > 0;
}

std::optional<Flat::TrueExtent> Flat::true_extent() const {
  TrueExtent all;
  if (pieces_.empty()) return all;
  all = {INT64_MAX, INT64_MIN};
  for (const Piece& piece : pieces_) {
    std::int64_t end = 0;
    if (piece.size > INT64_MAX || __builtin_add_overflow(piece.offset, as_signed(piece.size), &end))
      return std::nullopt;
    all = {std::min(all.begin, piece.offset), std::max(all.end, end)};
  }
  for (const Level& level : levels_) {
    std::int64_t rest = 0;
    if (__builtin_mul_overflow(as_signed(level.count - 1), level.stride, &rest)) return std::nullopt;
    std::int64_t& moved = rest < 0 ? all.begin : all.end;
    if (__builtin_add_overflow(moved, rest, &moved)) return std::nullopt;
  }
  return all;
}

std::int64_t Flat::offset_at(std::uint64_t position) const {
  std::uint64_t index = position / unit();
  const std::uint64_t within = position % unit();
  const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), within,
                                      [](std::uint64_t at, const Piece& piece) { return at < piece.start; });
  const Piece& piece = *(after - 1);
  std::int64_t offset = piece.offset + as_signed(within - piece.start);
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    offset += as_signed(index % level->count) * level->stride;
    index /= level->count;
  }
  return offset;
}

Walk::Walk(const Flat& flat, std::int64_t base, std::uint64_t first, std::uint64_t size) : flat_(&flat), left_(size) {
  if (flat.size() == 0 || size == 0) {
    left_ = 0;
    return;
  }
  if (flat.dense()) {
    pending_ = Run{base + flat.pieces().front().offset + as_signed(first), size};
    left_ = 0;
    return;
  }
  const auto pieces = flat.pieces();
  const std::uint64_t unit = pieces.back().start + pieces.back().size;
  place_ = base + as_signed(first / flat.size()) * flat.extent();
  std::uint64_t index = first % flat.size() / unit;
  within_ = first % unit;
  digits_.resize(flat.levels().size());
  for (std::size_t i = digits_.size(); i-- > 0;) {
    const Level& level = flat.levels()[i];
    digits_[i] = index % level.count;
    index /= level.count;
    place_ += as_signed(digits_[i]) * level.stride;
  }
  const auto after = std::upper_bound(pieces.begin(), pieces.end(), within_,
                                      [](std::uint64_t at, const Piece& piece) { return at < piece.start; });
  piece_ = static_cast<std::size_t>(after - pieces.begin()) - 1;
  within_ -= pieces[piece_].start;
}

/// Continues with the next unit of the type.
void Walk::turn() {
  piece_ = 0;
  for (std::size_t i = digits_.size(); i-- > 0;) {
    const Level& level = flat_->levels()[i];
    place_ += level.stride;
    if (++digits_[i] < level.count) return;
    place_ -= as_signed(level.count) * level.stride;
    digits_[i] = 0;
  }
  place_ += flat_->extent();
}

std::optional<Walk::Run> Walk::raw() {
  if (left_ == 0) return std::nullopt;
  const Piece& piece = flat_->pieces()[piece_];
  const Run run{place_ + piece.offset + as_signed(within_), std::min(piece.size - within_, left_)};
  left_ -= run.size;
  within_ = 0;
  if (++piece_ == flat_->pieces().size()) turn();
  return run;
}

std::optional<Walk::Run> Walk::next(std::uint64_t limit, std::int64_t end) {
  if (!pending_) pending_ = raw();
  if (!pending_ || pending_->offset >= end) return std::nullopt;
  std::uint64_t most = limit;
  if (end != INT64_MAX) most = std::min(limit, static_cast<std::uint64_t>(end - pending_->offset));
  while (pending_->size < most) {
    const auto more = raw();
    if (!more) {
      const Run all = *pending_;
      pending_.reset();
      return all;
    }
    if (more->offset == pending_->offset + as_signed(pending_->size)) {
      pending_->size += more->size;
      continue;
    }
    const Run all = *pending_;
    pending_ = more;
    return all;
  }
  const Run part{pending_->offset, std::min(most, pending_->size)};
  pending_->offset += as_signed(part.size);
  pending_->size -= part.size;
  if (pending_->size == 0) pending_.reset();
  return part;
}

std::optional<std::int64_t> Walk::peek() {
  if (!pending_) pending_ = raw();
  if (!pending_) return std::nullopt;
  return pending_->offset;
}

std::uint64_t stream_before(const Flat& flat, std::int64_t base, std::int64_t offset, std::uint64_t unit_bytes) {
  if (offset <= base || flat.size() == 0) return 0;
  const auto distance = static_cast<std::uint64_t>(offset - base);
  const std::uint64_t units = flat.size() / unit_bytes;  // of a tile
  std::uint64_t low = 0;
  // The pieces of a tile may extend beyond it by less than the type's true extent, so the search covers whole tiles.
  std::uint64_t high = flat.extent() <= 0 ? units : (distance / static_cast<std::uint64_t>(flat.extent()) + 1) * units;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const std::int64_t at =
        base + as_signed(middle / units) * flat.extent() + flat.offset_at(middle % units * unit_bytes);
    if (at < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace spate::mpiio
