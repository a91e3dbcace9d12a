// SPDX-License-Identifier: Apache-2.0
// The block pattern. Each word of a file's cells says which file, place and version it belongs to. A table that all
// clients share records which versions were written and acknowledged. Needs no I/O.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/bytes.h"

namespace spate::block_pattern {

/// A file of `cells` cells. Their size is a multiple of 8, mostly not of a page or strip, so neighbours share those.
struct Shape {
  std::uint64_t cell_bytes;
  std::uint64_t cells;
  std::uint64_t size() const { return cell_bytes * cells; }
};
inline constexpr std::array<Shape, 5> kShapes = {{{4096, 512}, {12344, 256}, {65536, 64}, {131080, 48}, {1048552, 12}}};
inline constexpr std::uint64_t kMostCells = 512;

/// The state of a cell. One client writes the cell, one write at a time; all clients read it. Version 0: never written;
/// reads yield zeros or the end of the file.
struct Cell {
  std::atomic<std::uint32_t> issued{0};        // the last version whose write was begun
  std::atomic<std::uint32_t> acknowledged{0};  // the last version whose write was answered
  std::atomic<std::uint32_t> retired{
      0};  // 1: a write has failed but may still arrive, so the cell is never written again by anybody
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Cell) == 16);
struct Table {
  std::array<std::array<Cell, kMostCells>, kShapes.size()> cells;
};

/// The 8 bytes at word `index` of a file in a version >= 1: the version, and a hash of file, index and version.
inline std::uint64_t word(std::uint64_t file, std::uint64_t index, std::uint32_t version) {
  std::uint64_t x =
      (file + 1) * 0x9E3779B97F4A7C15ULL ^ (index + 1) * 0xBF58476D1CE4E5B9ULL ^ version * 0x94D049BB133111EBULL;
  x ^= x >> 29U;
  x *= 0xD6E8FEB86659FD93ULL;
  x ^= x >> 32U;
  return (std::uint64_t{version} << 32U) | (x & 0xFFFFFFFFULL);
}

/// Fills a cell with its words of one version.
inline void stamp(MutableByteView cell, std::uint64_t file, std::uint64_t offset, std::uint32_t version) {
  for (std::uint64_t at = 0; at < cell.size(); at += 8) {
    const std::uint64_t value = word(file, (offset + at) / 8, version);
    std::memcpy(cell.data() + at, &value, 8);
  }
}

/// The versions that a read may see: from the last acknowledged before it began, to the last begun before it ended.
struct Allowed {
  std::uint32_t least = 0;
  std::uint32_t most = 0;
};

struct Wrong {
  std::uint64_t offset = 0;
  std::uint64_t found = 0;
  Allowed allowed;
};

/// Whether the word is a mixture of allowed versions. A read during a write is only promised that each single byte is
/// of an allowed version.
inline bool is_half_written(std::uint64_t found, std::uint64_t file, std::uint64_t index, Allowed allowed) {
  std::uint64_t explained = 0;
  for (std::uint32_t version = allowed.least; version <= allowed.most && allowed.least < allowed.most; ++version) {
    const std::uint64_t differs = found ^ (version == 0 ? 0 : word(file, index, version));
    for (std::uint64_t byte = 0xFF; byte != 0; byte <<= 8U) {
      if ((differs & byte) == 0) explained |= byte;
    }
  }
  return explained == ~std::uint64_t{0};
}

/// Checks each word of `data`, which was read at `offset` (a multiple of 8) and lies in one cell.
inline std::optional<Wrong> check(ByteView data, std::uint64_t file, std::uint64_t offset, Allowed allowed) {
  for (std::uint64_t at = 0; at + 8 <= data.size(); at += 8) {
    std::uint64_t found = 0;
    std::memcpy(&found, data.data() + at, 8);
    const auto version = static_cast<std::uint32_t>(found >> 32U);
    const std::uint64_t right = version == 0 ? 0 : word(file, (offset + at) / 8, version);
    const bool good = found == right && version >= allowed.least && version <= allowed.most;
    if (!good && !is_half_written(found, file, (offset + at) / 8, allowed)) return Wrong{offset + at, found, allowed};
  }
  return std::nullopt;
}

/// Calls each(cell number, first byte, end) for every cell that overlaps [offset, end) of a file.
template <typename Each>
void each_cell(const Shape& shape, std::uint64_t offset, std::uint64_t end, Each&& each) {
  while (offset < end) {
    const std::uint64_t cell = offset / shape.cell_bytes;
    const std::uint64_t next = std::min(end, (cell + 1) * shape.cell_bytes);
    each(cell, offset, next);
    offset = next;
  }
}

}  // namespace spate::block_pattern
