// SPDX-License-Identifier: Apache-2.0
#include "datatype/cursor.h"

#include <algorithm>

namespace spate::datatype {

Cursor::Cursor(const Description& description) : description_(&description), block_size_(description.block_bytes()) {
  std::uint64_t span = description.block_bytes();
  std::uint64_t stream = description.block_bytes();
  const std::span<const Level> levels = description.levels();
  for (std::size_t k = levels.size(); k-- > 0;) {
    span_[k] = span;
    stream_[k] = stream;
    span += (levels[k].count - 1) * levels[k].stride;
    stream *= levels[k].count;
  }
  seek(0);
}

void Cursor::next() { load(); }

void Cursor::next_outside(std::uint64_t from, std::uint64_t to) {
  if (description_->kind() == DescriptionKind::kList) {
    while (raw_.size > 0 && raw_.offset >= from && raw_.end() <= to) step_raw();
  } else if (raw_.size > 0 && raw_.offset >= from && raw_.end() <= to) {
    skip_blocks(from, to);
  }
  load();
}

/// Leaves out the last block of a row, because it may merge with the first of the next row.
Cursor::Run Cursor::run() const {
  const std::span<const Level> levels = description_->levels();
  if (levels.empty() || piece_.size != block_size_ || raw_.size != block_size_) return {};
  const Level& row = levels.back();
  const std::uint64_t ahead = index_[levels.size() - 1];
  if (ahead == 0 || row.stride <= block_size_) return {};
  const std::uint64_t in_window = (description_->total_bytes() - raw_.stream) / block_size_;
  return {std::min(row.count - 1 - ahead, in_window), row.stride};
}

void Cursor::next_in_run(std::uint64_t count) {
  const std::size_t row = description_->levels().size() - 1;
  const std::uint64_t stride = description_->levels()[row].stride;
  index_[row] += count;
  block_offset_ += count * stride;
  block_stream_ += count * block_size_;
  piece_ = {piece_.offset + count * stride, block_size_, piece_.stream + count * block_size_};
  load_raw();
}

void Cursor::seek(std::uint64_t stream) {
  if (stream >= description_->total_bytes()) {
    end();
  } else if (description_->kind() == DescriptionKind::kList) {
    seek_list(stream);
  } else {
    seek_block((description_->first() + stream) / description_->block_bytes());
  }
  load_raw();
  const std::uint64_t before = raw_.size > 0 ? stream - raw_.stream : 0;
  raw_ = {raw_.offset + before, raw_.size - before, raw_.stream + before};
  load();
}

/// Makes the block ahead the current piece, and merges following blocks that continue it in the file without a gap.
void Cursor::load() {
  piece_ = raw_;
  if (raw_.size == 0) return;
  step_raw();
  // In canonical form this only joins the end of one row to the beginning of the next.
  while (raw_.size > 0 && raw_.offset == piece_.end()) {
    piece_.size += raw_.size;
    step_raw();
  }
}

/// Cuts the block ahead to the window.
void Cursor::load_raw() {
  const std::uint64_t first = description_->first();
  const std::uint64_t begin = std::max(block_stream_, first);
  const std::uint64_t stop = std::min(block_stream_ + block_size_, first + description_->total_bytes());
  raw_ = {};
  if (begin < stop) raw_ = {block_offset_ + begin - block_stream_, stop - begin, begin - first};
}

void Cursor::end() { block_stream_ = description_->first() + description_->total_bytes(); }

void Cursor::step_raw() {
  if (description_->kind() == DescriptionKind::kList) {
    block_stream_ += block_size_;
    if (++list_index_ < description_->pieces().size()) {
      block_offset_ = description_->pieces()[list_index_].offset;
      block_size_ = description_->pieces()[list_index_].size;
    }
    return load_raw();
  }
  const std::span<const Level> levels = description_->levels();
  std::size_t k = levels.size();
  while (k > 0 && index_[k - 1] + 1 == levels[k - 1].count) {
    --k;
    block_offset_ -= index_[k] * levels[k].stride;
    index_[k] = 0;
  }
  if (k == 0) {
    end();
  } else {
    ++index_[k - 1];
    block_offset_ += levels[k - 1].stride;
    block_stream_ += block_size_;
  }
  load_raw();
}

void Cursor::seek_list(std::uint64_t stream) {
  const std::span<const Extent> pieces = description_->pieces();
  block_stream_ = 0;
  list_index_ = 0;
  while (stream - block_stream_ >= pieces[list_index_].size) block_stream_ += pieces[list_index_++].size;
  block_offset_ = pieces[list_index_].offset;
  block_size_ = pieces[list_index_].size;
}

void Cursor::seek_block(std::uint64_t block) {
  const std::span<const Level> levels = description_->levels();
  for (std::size_t k = levels.size(); k-- > 0;) {
    index_[k] = block % levels[k].count;
    block /= levels[k].count;
  }
  place_block();
}

/// Computes from the indices where the block ahead begins.
void Cursor::place_block() {
  const std::span<const Level> levels = description_->levels();
  block_offset_ = description_->offset();
  block_stream_ = 0;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    block_offset_ += index_[k] * levels[k].stride;
    block_stream_ += index_[k] * stream_[k];
  }
}

/// Skips the block ahead. Then skips, level by level from the innermost, all repetitions that lie completely in [from,
/// to). A division gives their number, because each is `stride` after the one before.
void Cursor::skip_blocks(std::uint64_t from, std::uint64_t to) {
  const std::span<const Level> levels = description_->levels();
  for (std::size_t k = levels.size(); k-- > 0;) {
    const Level& level = levels[k];
    block_offset_ -= index_[k] * level.stride;  // with inner indices at 0: where this level's row begins
    std::uint64_t j = index_[k] + 1;
    index_[k] = 0;
    if (j == level.count) continue;
    const std::uint64_t begin = block_offset_ + j * level.stride;
    const std::uint64_t end = begin + span_[k];
    if (begin >= from && end <= to) {
      j = level.stride == 0 ? level.count : std::min(level.count, j + (to - end) / level.stride + 1);
    }
    if (j == level.count) continue;
    index_[k] = j;
    place_block();
    return load_raw();
  }
  end();
  load_raw();
}

}  // namespace spate::datatype
