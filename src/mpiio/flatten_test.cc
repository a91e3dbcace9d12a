// SPDX-License-Identifier: Apache-2.0
#include "mpiio/flatten.h"

#include <algorithm>
#include <optional>
#include <random>

#include "base/expect.h"

namespace spate::mpiio {
namespace {

/// A type as the standard defines it: the offset of each byte in the order of the type map.
struct Naive {
  std::vector<std::int64_t> bytes;
  std::int64_t lb = 0;
  std::int64_t ub = 0;
  bool any = false;

  std::int64_t extent() const { return ub - lb; }
  void add(const Naive& type, std::int64_t displacement) {
    for (const std::int64_t byte : type.bytes) bytes.push_back(byte + displacement);
    lb = any ? std::min(lb, type.lb + displacement) : type.lb + displacement;
    ub = any ? std::max(ub, type.ub + displacement) : type.ub + displacement;
    any = true;
  }
  void add_block(const Naive& type, std::uint64_t count, std::int64_t displacement) {
    for (std::uint64_t i = 0; i < count; ++i) add(type, displacement + static_cast<std::int64_t>(i) * type.extent());
  }
};

struct Pair {
  Flat flat;
  Naive naive;
};

/// Makes random types, both as Flat and as Naive.
class Types {
 public:
  explicit Types(std::uint64_t seed) : random_(seed) {}
  std::uint64_t number(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }

  /// `ascending`: makes types that a file may have: they do not begin below zero or go backwards.
  Pair make(int depth, bool ascending) {
    if (depth == 0) return basic();
    const Pair child = make(depth - 1, ascending);
    switch (number(6)) {
      case 0: return vector(child, ascending);
      case 1: return indexed(child, ascending);
      case 2:
        return pair_of(child, make(static_cast<int>(number(static_cast<std::uint64_t>(depth))), ascending), ascending);
      case 3: return subarray(child);
      case 4: return darray(child);
      default: return resized(child, ascending);
    }
  }

 private:
  Pair basic() {
    Pair made;
    const std::uint64_t size = std::uint64_t{1} << number(4);
    made.flat = Flat::basic(size);
    for (std::uint64_t i = 0; i < size; ++i) made.naive.bytes.push_back(static_cast<std::int64_t>(i));
    made.naive.ub = static_cast<std::int64_t>(size);
    made.naive.any = true;
    return made;
  }
  /// A stride that keeps blocks in order if `ascending`, else any stride.
  std::int64_t stride(const Naive& child, std::uint64_t length, bool ascending) {
    const std::int64_t span =
        static_cast<std::int64_t>(length) * std::max<std::int64_t>(child.extent(), 0) + true_span(child);
    if (ascending) return span + static_cast<std::int64_t>(number(20));
    return static_cast<std::int64_t>(number(60)) - 20;
  }
  static std::int64_t true_span(const Naive& child) {
    std::int64_t end = 0;
    for (const std::int64_t byte : child.bytes) end = std::max(end, byte + 1);
    return end;
  }
  Pair vector(const Pair& child, bool ascending) {
    const std::uint64_t count = number(4);
    const std::uint64_t length = number(4);
    const std::int64_t step = stride(child.naive, length, ascending);
    Pair made;
    made.flat = *child.flat.hvector(count, length, step);
    for (std::uint64_t i = 0; i < count; ++i)
      made.naive.add_block(child.naive, length, static_cast<std::int64_t>(i) * step);
    return made;
  }
  Pair indexed(const Pair& child, bool ascending) {
    std::vector<std::uint64_t> lengths;
    std::vector<std::int64_t> places;
    Pair made;
    std::int64_t at = 0;
    for (std::uint64_t i = number(5); i > 0; --i) {
      lengths.push_back(number(3));
      places.push_back(at);
      at += stride(child.naive, lengths.back(), ascending);
      made.naive.add_block(child.naive, lengths.back(), places.back());
    }
    made.flat = *child.flat.hindexed(lengths, places);
    return made;
  }
  Pair pair_of(const Pair& first, const Pair& second, bool ascending) {
    const std::int64_t at = stride(first.naive, 1, ascending);
    const Flat::Member members[] = {{&first.flat, 1, 0}, {&second.flat, 2, at}};
    Pair made;
    made.flat = *Flat::structure(members);
    made.naive.add(first.naive, 0);
    made.naive.add_block(second.naive, 2, at);
    return made;
  }
  Pair subarray(const Pair& child) {
    std::vector<Flat::Dimension> shape;
    for (std::uint64_t i = 1 + number(3); i > 0; --i) {
      const std::uint64_t size = 1 + number(4);
      const std::uint64_t start = number(size);
      shape.push_back({size, 1 + number(size - start), start});
    }
    Pair made;
    made.flat = *child.flat.subarray(shape);
    std::vector<std::vector<std::uint64_t>> chosen;
    for (const auto& d : shape) {
      chosen.emplace_back();
      for (std::uint64_t i = 0; i < d.sub_size; ++i) chosen.back().push_back(d.start + i);
    }
    fill(made.naive, child.naive, shape, chosen);
    return made;
  }
  Pair darray(const Pair& child) {
    std::vector<Flat::DistributedDimension> shape;
    std::vector<Flat::Dimension> sizes;
    std::vector<std::vector<std::uint64_t>> chosen;
    for (std::uint64_t i = 1 + number(3); i > 0; --i) {
      Flat::DistributedDimension d;
      d.size = 1 + number(6);
      d.distribution = static_cast<Flat::ArrayDistribution>(number(3));
      d.processes = d.distribution == Flat::ArrayDistribution::kNone ? 1 : 1 + number(3);
      d.place = number(d.processes);
      if (d.distribution == Flat::ArrayDistribution::kCyclic) d.argument = number(3);
      shape.push_back(d);
      sizes.push_back({d.size, d.size, 0});
      const std::uint64_t block = d.distribution == Flat::ArrayDistribution::kNone ? d.size
                                  : d.distribution == Flat::ArrayDistribution::kBlock
                                      ? (d.size + d.processes - 1) / d.processes
                                      : std::max<std::uint64_t>(d.argument, 1);
      chosen.emplace_back();
      for (std::uint64_t e = 0; e < d.size; ++e) {
        if (e / block % d.processes == d.place) chosen.back().push_back(e);
      }
    }
    Pair made;
    made.flat = *child.flat.darray(shape);
    fill(made.naive, child.naive, sizes, chosen);
    return made;
  }
  /// Adds every combination of the chosen indices, the first dimension fastest.
  static void fill(Naive& out, const Naive& child, const std::vector<Flat::Dimension>& shape,
                   const std::vector<std::vector<std::uint64_t>>& chosen) {
    std::uint64_t all = 1;
    std::uint64_t whole = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      all *= chosen[i].size();
      whole *= shape[i].size;
    }
    for (std::uint64_t i = 0; i < all; ++i) {
      std::uint64_t rest = i;
      std::uint64_t place = 0;
      std::uint64_t width = 1;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        place += chosen[d][rest % chosen[d].size()] * width;
        rest /= chosen[d].size();
        width *= shape[d].size;
      }
      out.add(child, static_cast<std::int64_t>(place) * child.extent());
    }
    out.lb = 0;
    out.ub = static_cast<std::int64_t>(whole) * child.extent();
    out.any = true;
  }
  Pair resized(const Pair& child, bool ascending) {
    Pair made = child;
    made.naive.lb = ascending ? 0 : static_cast<std::int64_t>(number(9)) - 4;
    made.naive.ub = made.naive.lb + true_span(child.naive) + static_cast<std::int64_t>(number(9));
    made.naive.any = true;
    made.flat = child.flat.resized(made.naive.lb, made.naive.extent());
    return made;
  }

  std::mt19937_64 random_;
};

std::vector<std::int64_t> bytes_of(Walk walk, std::uint64_t limit) {
  std::vector<std::int64_t> bytes;
  while (const auto run = walk.next(limit)) {
    for (std::uint64_t i = 0; i < run->size; ++i) bytes.push_back(run->offset + static_cast<std::int64_t>(i));
  }
  return bytes;
}

TEST(Flatten, RandomTypesEqualTheirNaiveExpansion) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Types types(seed);
    const Pair type = types.make(1 + static_cast<int>(types.number(4)), false);
    SCOPED_TRACE(seed);
    ASSERT_EQ(type.flat.size(), type.naive.bytes.size());
    ASSERT_EQ(type.flat.lb(), type.naive.lb);
    ASSERT_EQ(type.flat.extent(), type.naive.extent());
    ASSERT_LE(type.flat.levels().size(), kMaxLevels);
    const std::uint64_t size = type.flat.size();
    if (size == 0) continue;
    const auto [low, high] = std::minmax_element(type.naive.bytes.begin(), type.naive.bytes.end());
    ASSERT_EQ(type.flat.true_extent(), (Flat::TrueExtent{*low, *high + 1}));
    std::vector<std::int64_t> expected;
    for (int tile = 0; tile < 3; ++tile) {
      for (const std::int64_t byte : type.naive.bytes) expected.push_back(1000 + tile * type.naive.extent() + byte);
    }
    const std::uint64_t first = types.number(size * 2);
    const std::uint64_t count = 1 + types.number(size);
    const auto from = expected.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<std::int64_t> cut(from, from + static_cast<std::ptrdiff_t>(count));
    ASSERT_EQ(bytes_of(Walk(type.flat, 1000, first, count), UINT64_MAX), cut);
    ASSERT_EQ(bytes_of(Walk(type.flat, 1000, first, count), 1 + types.number(5)), cut);
    ASSERT_EQ(1000 + type.flat.offset_at(first % size), expected[first % size]);
  }
}

TEST(Flatten, TheStreamBeforeAnOffsetIsCountedInEveryTile) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Types types(seed);
    const Pair type = types.make(1 + static_cast<int>(types.number(3)), true);
    if (type.flat.size() == 0) continue;
    // The tiles of a file type follow one another.
    std::int64_t end = 0;
    for (const std::int64_t byte : type.naive.bytes) end = std::max(end, byte + 1);
    const Flat flat = type.flat.resized(0, end + 3);
    const auto offset = static_cast<std::int64_t>(types.number(static_cast<std::uint64_t>(3 * (end + 3))));
    std::uint64_t expected = 0;
    for (int tile = 0; tile < 4; ++tile) {
      for (const std::int64_t byte : type.naive.bytes) expected += 50 + tile * (end + 3) + byte < offset ? 1 : 0;
    }
    ASSERT_EQ(stream_before(flat, 50, offset), expected) << seed;
    for (std::uint64_t unit = 2; unit <= 8; unit *= 2) {
      if (flat.size() % unit != 0) break;
      ASSERT_EQ(stream_before(flat, 50, offset, unit), (expected + unit - 1) / unit) << seed;
    }
  }
}

TEST(Flatten, OnlyTypesThatAscendAreFileTypes) {
  int ascending = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Types types(seed);
    const Pair type = types.make(1 + static_cast<int>(types.number(4)), types.number(2) == 0);
    bool expected = true;
    std::int64_t last = -1;
    for (const std::int64_t byte : type.naive.bytes) {
      expected = expected && byte > last;
      last = byte;
    }
    expected = expected && (type.naive.bytes.empty() || type.naive.extent() > 0);
    ASSERT_EQ(type.flat.ascends(), expected) << seed;
    ascending += expected ? 1 : 0;
  }
  EXPECT_GT(ascending, 300);
  EXPECT_LT(ascending, 2700);
}

TEST(Flatten, UnitsThatOverlapAreCountedByTheirBegin) {
  const Flat flat = *Flat::basic(8).hvector(3, 1, 4);  // at 0, 4 and 8; its copies lie 16 apart
  EXPECT_EQ(stream_before(flat, 100, 109, 8), 3U);
  EXPECT_EQ(stream_before(flat, 100, 108, 8), 2U);
  EXPECT_EQ(stream_before(flat, 100, 100 + 16 * 10, 8), 30U);
}

TEST(Flatten, AnExtentBeyond64BitsIsUndefined) {
  EXPECT_EQ(Flat::basic(8).hvector(1U << 20U, 1, std::int64_t{1} << 50U)->true_extent(), std::nullopt);
}

TEST(Flatten, AWalkStopsAtTheEndOfAWindow) {
  const Flat flat = Flat::basic(4).hvector(3, 1, 10)->resized(0, 30);
  Walk walk(flat, 0, 0, 24);
  EXPECT_EQ(walk.next(UINT64_MAX, 12)->size, 4U);
  const auto part = walk.next(UINT64_MAX, 12);
  ASSERT_NE(part, std::nullopt);
  EXPECT_EQ(part->offset, 10);
  EXPECT_EQ(part->size, 2U);
  EXPECT_EQ(walk.next(UINT64_MAX, 12), std::nullopt);
  EXPECT_EQ(walk.left(), 18U);
  EXPECT_EQ(walk.next(UINT64_MAX, 100)->offset, 12);
}

TEST(Flatten, ALargeVectorIsOneLevel) {
  const Flat flat = *Flat::basic(8).hvector(1U << 30U, 2, 100);
  ASSERT_EQ(flat.levels().size(), 1U);
  EXPECT_EQ(flat.levels()[0], (Level{1U << 30U, 100}));
  EXPECT_EQ(flat.pieces().size(), 1U);
  EXPECT_EQ(flat.pieces()[0].size, 16U);
}

TEST(Flatten, MorePiecesThanMemoryShouldHoldAreRefused) {
  const Flat flat = *Flat::basic(1).hvector(1U << 20U, 1, 2);
  const Flat::Member members[] = {{&flat, 8, 0}, {&flat, 8, 1U << 30U}};
  EXPECT_EQ(Flat::structure(members), std::nullopt);
}

}  // namespace
}  // namespace spate::mpiio
