// SPDX-License-Identifier: Apache-2.0
// Model: the expected contents of a file's datafiles; and random descriptions with the list of bytes that they mean.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"
#include "datatype/description.h"
#include "datatype/description_cases.h"
#include "dist/distribution.h"

namespace spate::io::testing {

class Model {
 public:
  explicit Model(const Distribution& distribution) : distribution_(distribution), files_(distribution.slot_count()) {}

  /// The expected bytes of a slot's stream, up to the last byte that the datafile has; zeros for its holes.
  Bytes expected(const std::vector<std::uint64_t>& bytes, std::uint32_t slot) const {
    Bytes stream;
    std::size_t present = 0;
    for (const std::uint64_t byte : bytes) {
      const Physical at = distribution_.to_physical(byte);
      if (at.slot != slot) continue;
      const Bytes& file = files_[slot];
      stream.push_back(at.offset < file.size() ? file[at.offset] : std::byte{0});
      if (at.offset < file.size()) present = stream.size();
    }
    stream.resize(present);
    return stream;
  }
  /// The number of bytes in each slot's stream.
  std::vector<std::uint64_t> sizes(const std::vector<std::uint64_t>& bytes) const {
    std::vector<std::uint64_t> sizes(files_.size(), 0);
    for (const std::uint64_t byte : bytes) ++sizes[distribution_.to_physical(byte).slot];
    return sizes;
  }
  void write(const std::vector<std::uint64_t>& bytes, const std::vector<Bytes>& streams) {
    std::vector<std::size_t> at(files_.size(), 0);
    for (const std::uint64_t byte : bytes) {
      const Physical to = distribution_.to_physical(byte);
      Bytes& file = files_[to.slot];
      if (file.size() <= to.offset) file.resize(to.offset + 1);
      file[to.offset] = streams[to.slot][at[to.slot]++];
    }
  }
  void punch(const std::vector<std::uint64_t>& bytes) {
    for (const std::uint64_t byte : bytes) {
      const Physical to = distribution_.to_physical(byte);
      if (to.offset < files_[to.slot].size()) files_[to.slot][to.offset] = std::byte{0};
    }
  }
  void truncate(std::uint32_t slot, std::uint64_t size) { files_[slot].resize(size); }
  std::uint64_t size(std::uint32_t slot) const { return files_[slot].size(); }

 private:
  const Distribution& distribution_;
  std::vector<Bytes> files_;
};

/// Draws a contiguous, list or strided description within some 100 KiB. Lists may descend; strides may overlap.
inline datatype::DescriptionCase draw(Random& random) {
  std::vector<std::uint64_t> bytes;
  const std::uint64_t base = random.below(30000);
  if (random.chance(1, 3)) {
    const std::uint64_t size = random.below(70000);
    datatype::spell_block(base, size, bytes);
    return datatype::must(datatype::Description::contiguous(base, size), std::move(bytes));
  }
  if (random.chance(1, 2)) {
    std::vector<Extent> pieces;
    std::uint64_t at = base;
    const bool ascending = random.chance(1, 2);
    for (std::uint64_t n = random.below(14); n > 0; --n) {
      at = ascending ? at + random.below(5000) : random.below(80000);
      pieces.push_back({at, random.below(6000)});
      datatype::spell_block(at, pieces.back().size, bytes);
      at += pieces.back().size;
    }
    return datatype::must(datatype::Description::list(pieces), std::move(bytes));
  }
  const std::uint64_t block_bytes = 1 + random.below(random.chance(1, 3) ? 20 : 3000);
  std::vector<datatype::Level> levels{{1 + random.below(4), random.below(20000)},
                                      {1 + random.below(6), random.below(4000)}};
  datatype::spell_levels(base, block_bytes, levels, bytes);
  return datatype::must(datatype::Description::strided(base, block_bytes, levels), std::move(bytes));
}

}  // namespace spate::io::testing
