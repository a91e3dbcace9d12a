// SPDX-License-Identifier: Apache-2.0
// For tests: random descriptions, each with the bytes that it names by definition.
#pragma once

#include <vector>

#include "base/expect.h"
#include "base/random.h"
#include "datatype/description.h"

namespace spate::datatype {

struct DescriptionCase {
  Description description;
  std::vector<std::uint64_t> bytes;  // bytes[i]: offset in the file of byte i of the stream
};

inline void spell_block(std::uint64_t offset, std::uint64_t size, std::vector<std::uint64_t>& out) {
  for (std::uint64_t i = 0; i < size; ++i) out.push_back(offset + i);
}

inline void spell_levels(std::uint64_t offset, std::uint64_t block_bytes, std::span<const Level> levels,
                         std::vector<std::uint64_t>& out) {
  if (levels.empty()) return spell_block(offset, block_bytes, out);
  for (std::uint64_t i = 0; i < levels[0].count; ++i) {
    spell_levels(offset + i * levels[0].stride, block_bytes, levels.subspan(1), out);
  }
}

inline DescriptionCase must(Result<Description> description, std::vector<std::uint64_t> bytes) {
  EXPECT_OK(description);
  return {*std::move(description), std::move(bytes)};
}

inline DescriptionCase draw_list(Random& random, std::uint64_t base) {
  std::vector<Extent> pieces;
  std::vector<std::uint64_t> bytes;
  std::uint64_t at = base;
  const bool ascending = random.chance(1, 2);
  for (std::uint64_t n = random.below(12); n > 0; --n) {
    at = ascending ? at + random.below(20) * random.below(2) : base + random.below(400);
    pieces.push_back({at, random.below(30)});
    spell_block(at, pieces.back().size, bytes);
    at += pieces.back().size;
  }
  return must(Description::list(pieces), std::move(bytes));
}

inline DescriptionCase draw_strided(Random& random, std::uint64_t base) {
  std::vector<Level> levels;
  const std::uint64_t block_bytes = 1 + random.below(9);
  std::uint64_t span = block_bytes;
  for (std::uint64_t n = random.below(5); n > 0; --n) {
    Level level{1 + random.below(4), span};  // without a gap
    if (random.chance(1, 2)) level.stride = span + random.below(40);
    if (random.chance(1, 4)) level.stride = random.below(60);  // may overlap or interleave
    levels.insert(levels.begin(), level);
    span += (level.count - 1) * level.stride;
  }
  std::vector<std::uint64_t> bytes;
  spell_levels(base, block_bytes, levels, bytes);
  if (random.chance(1, 2)) return must(Description::strided(base, block_bytes, levels), std::move(bytes));
  const std::uint64_t first = random.below(bytes.size() + 1);
  const std::uint64_t size = random.below(bytes.size() - first + 1);
  std::vector<std::uint64_t> cut(bytes.begin() + static_cast<std::ptrdiff_t>(first),
                                 bytes.begin() + static_cast<std::ptrdiff_t>(first + size));
  return must(Description::strided_window(base, block_bytes, levels, {first, size}), std::move(cut));
}

/// At most some thousand bytes, sometimes at the far end of the largest file.
inline DescriptionCase draw_case(Random& random) {
  const std::uint64_t base = random.chance(1, 10) ? kMaxFileBytes - 20000 - random.below(1000) : random.below(500);
  switch (random.below(4)) {
    case 0: {
      const std::uint64_t size = random.below(600);
      std::vector<std::uint64_t> bytes;
      spell_block(base, size, bytes);
      return must(Description::contiguous(base, size), std::move(bytes));
    }
    case 1: return draw_list(random, base);
    default: return draw_strided(random, base);
  }
}

}  // namespace spate::datatype
