// SPDX-License-Identifier: Apache-2.0
#include "datatype/slot_cursor.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/expect.h"
#include "datatype/description_cases.h"
#include "datatype/measure.h"
#include "datatype/memory_map.h"
#include "dist/simple_stripe.h"
#include "dist/twod_stripe.h"
#include "dist/varstrip.h"

namespace spate::datatype {
namespace {

/// Counts the calls of a walk.
class CountingDistribution final : public Distribution {
 public:
  explicit CountingDistribution(const Distribution& inner) : inner_(inner) {}
  std::size_t slot_count() const override { return inner_.slot_count(); }
  Physical to_physical(std::uint64_t logical) const override { return ++calls, inner_.to_physical(logical); }
  std::uint64_t to_logical(std::uint32_t slot, std::uint64_t physical) const override {
    return ++calls, inner_.to_logical(slot, physical);
  }
  std::uint64_t contiguous_bytes(std::uint64_t logical) const override {
    return ++calls, inner_.contiguous_bytes(logical);
  }
  std::uint64_t physical_size(std::uint32_t slot, std::uint64_t logical_size) const override {
    return ++calls, inner_.physical_size(slot, logical_size);
  }
  std::uint64_t shift_bytes() const override { return ++calls, inner_.shift_bytes(); }
  mutable std::uint64_t calls = 0;

 private:
  const Distribution& inner_;
};

std::unique_ptr<const Distribution> draw_distribution(Random& random) {
  const auto slots = static_cast<std::uint32_t>(1 + random.below(5));
  if (random.chance(1, 2)) return std::make_unique<SimpleStripe>(slots, 1 + random.below(70));
  if (random.chance(1, 3)) {
    const TwodStripe::Groups groups{1 + random.below(3), 1 + random.below(4)};
    return std::make_unique<TwodStripe>(slots * groups.count, 1 + random.below(20), groups);
  }
  std::vector<VarStrip::Strip> strips;
  for (std::uint32_t slot = 0; slot < slots; ++slot) strips.push_back({slot, 1 + random.below(50)});
  for (std::uint64_t n = random.below(8); n > 0; --n) {
    const auto slot = static_cast<std::uint32_t>(random.below(slots));
    strips.insert(strips.begin(), {slot, 1 + random.below(20)});
  }
  return std::make_unique<VarStrip>(slots, strips);
}

/// A byte of a slot's stream, computed directly from the definition.
struct SlotByte {
  std::uint64_t physical;
  std::uint64_t stream;
  friend bool operator==(const SlotByte&, const SlotByte&) = default;
};
std::vector<SlotByte> naive(const std::vector<std::uint64_t>& bytes, const Distribution& dist, std::uint32_t slot) {
  std::vector<SlotByte> out;
  for (std::uint64_t i = 0; i < bytes.size(); ++i) {
    const Physical at = dist.to_physical(bytes[i]);
    if (at.slot == slot) out.push_back({at.offset, i});
  }
  return out;
}

BatchLimits draw_limits(Random& random) {
  BatchLimits limits;
  if (random.chance(1, 2)) limits.max_bytes = 1 + random.below(100);
  if (random.chance(1, 2)) limits.max_pieces = 1 + random.below(5);
  return limits;
}

/// Appends the next batch, as a client or as a server sees it, byte by byte. A server does not learn stream offsets, so
/// it gets those of `expected`. Returns the size of the batch that the cursor reports.
std::uint64_t append_batch(SlotCursor& cursor, Random& random, const std::vector<SlotByte>& expected,
                           std::vector<SlotByte>& out) {
  const BatchLimits limits = draw_limits(random);
  const std::size_t before = out.size();
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  if (random.chance(1, 2)) {
    std::vector<SlotPiece> pieces;
    bytes = cursor.next_batch(limits, pieces);
    count = pieces.size();
    for (const SlotPiece& piece : pieces) {
      for (std::uint64_t i = 0; i < piece.size; ++i) out.push_back({piece.physical + i, piece.stream + i});
    }
  } else {
    std::vector<Extent> extents;
    bytes = cursor.next_extents(limits, extents);
    count = extents.size();
    for (const Extent& extent : extents) {
      for (std::uint64_t i = 0; i < extent.size; ++i) {
        out.push_back({extent.offset + i, out.size() < expected.size() ? expected[out.size()].stream : ~0ULL});
      }
    }
  }
  EXPECT_LE(count, limits.max_pieces);
  EXPECT_LE(out.size() - before, limits.max_bytes);
  EXPECT_GT(out.size(), before) << "an empty batch";
  return bytes;
}

TEST(SlotCursor, BatchesOfAnySizeEqualTheNaiveStreamOnBothSides) {
  for (std::uint64_t seed = 1; seed <= 10000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    const auto dist = draw_distribution(random);
    std::uint64_t sum = 0;
    for (std::uint32_t slot = 0; slot < dist->slot_count(); ++slot) {
      const std::vector<SlotByte> expected = naive(c.bytes, *dist, slot);
      sum += expected.size();
      ASSERT_EQ(bytes_for_slot(c.description, *dist, slot), expected.size());
      SlotCursor cursor(c.description, *dist, slot);
      std::vector<SlotByte> got;
      while (!cursor.done() && got.size() <= expected.size()) {
        const std::size_t before = got.size();
        const std::uint64_t appended = append_batch(cursor, random, expected, got);
        ASSERT_EQ(appended, got.size() - before);
        ASSERT_EQ(cursor.slot_offset(), got.size());
      }
      ASSERT_EQ(got, expected);
    }
    ASSERT_EQ(sum, c.bytes.size());
  }
}

TEST(SlotCursor, BatchesOfLongRowsAreTheNaiveStream) {
  for (std::uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const std::uint64_t block = 1 + random.below(8);
    const Level row{1 + random.below(100), block + random.below(30)};
    const std::vector<Level> levels{{1 + random.below(3), row.count * row.stride + random.below(50)}, row};
    std::vector<std::uint64_t> bytes;
    spell_levels(7, block, levels, bytes);
    const std::uint64_t first = random.below(bytes.size());
    const std::uint64_t size = 1 + random.below(bytes.size() - first);
    bytes = {bytes.begin() + static_cast<std::ptrdiff_t>(first),
             bytes.begin() + static_cast<std::ptrdiff_t>(first + size)};
    const Description d = *Description::strided_window(7, block, levels, {first, size});
    const SimpleStripe dist(1 + random.below(3), 50 + random.below(1000));
    for (std::uint32_t slot = 0; slot < dist.slot_count(); ++slot) {
      const std::vector<SlotByte> expected = naive(bytes, dist, slot);
      SlotCursor cursor(d, dist, slot);
      std::vector<SlotByte> got;
      while (!cursor.done() && got.size() <= expected.size()) append_batch(cursor, random, expected, got);
      ASSERT_EQ(got, expected);
    }
  }
}

TEST(SlotCursor, AContiguousRequestIsOneExtentOfEachDatafile) {
  const SimpleStripe dist(4, 65536);
  const Description d = *Description::contiguous(0, 100ULL << 20U);
  std::vector<Extent> batch;
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    SlotCursor cursor(d, dist, slot);
    EXPECT_EQ(cursor.next_extents({}, batch), 25ULL << 20U);
    EXPECT_EQ(batch, (std::vector<Extent>{{0, 25ULL << 20U}}));
    EXPECT_TRUE(cursor.done());
  }
}

TEST(SlotCursor, AContiguousRequestNeedsNoWalkOverStrips) {
  const SimpleStripe fine(3, kMinStripBytes);
  const CountingDistribution dist(fine);
  const Description whole = *Description::contiguous(1, kMaxTotalBytes);
  EXPECT_EQ(bytes_for_slot(whole, dist, 0) + bytes_for_slot(whole, dist, 1) + bytes_for_slot(whole, dist, 2),
            kMaxTotalBytes);
  EXPECT_LT(dist.calls, 40U);
}

TEST(SlotCursor, BytesOfOtherSlotsAreSkipped) {
  // 2^14 blocks of one byte in each strip; slot 1 has one strip in eight.
  const std::uint64_t in_strip = 1ULL << 14U;
  const SimpleStripe dist(8, in_strip * 1024);
  const std::vector<Level> level{{16 * in_strip, 1024}};
  const Description d = *Description::strided(0, 1, level);
  SlotCursor cursor(d, dist, 1);
  std::vector<Extent> batch;
  static_assert(7 * in_strip > SlotCursor::kMaxStepsPerBatch, "more lies between than a batch may look at");
  cursor.next_extents({~0ULL, in_strip}, batch);
  EXPECT_EQ(batch.size(), in_strip);
  cursor.next_extents({~0ULL, in_strip}, batch);
  EXPECT_EQ(batch.size(), in_strip);
  EXPECT_TRUE(cursor.done());
}

TEST(SlotCursor, ABatchExaminesALimitedNumberOfPieces) {
  // Every block lies in slot 0, because the stride is one stripe. Slot 1 finds nothing, in bounded batches.
  const SimpleStripe dist(2, 4096);
  const std::vector<Level> level{{1ULL << 20U, 8192}};
  const Description d = *Description::strided(0, 1, level);
  SlotCursor cursor(d, dist, 1);
  std::vector<Extent> batch;
  std::size_t batches = 0;
  for (; !cursor.done(); ++batches) EXPECT_EQ(cursor.next_extents({}, batch), 0U);
  EXPECT_EQ(batches, (1ULL << 20U) / SlotCursor::kMaxStepsPerBatch - 1);  // the constructor examines some, too
}

TEST(Measure, SlotsTouchedAreThoseWithBytes) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    const auto dist = draw_distribution(random);
    std::set<std::uint32_t> expected;
    for (const std::uint64_t byte : c.bytes) expected.insert(dist->to_physical(byte).slot);
    const std::vector<std::uint32_t> touched = slots_touched(c.description, *dist);
    ASSERT_EQ(touched, std::vector<std::uint32_t>(expected.begin(), expected.end())) << "seed " << seed;
  }
}

TEST(Measure, ValidAndPresentBytesFollowTheirDefinition) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    const auto dist = draw_distribution(random);
    const std::uint64_t size = c.bytes.empty() ? 0 : c.bytes[random.below(c.bytes.size())] + random.below(2);
    std::uint64_t valid = 0;
    while (valid < c.bytes.size() && c.bytes[valid] < size) ++valid;
    ASSERT_EQ(valid_bytes(c.description, size), valid) << "seed " << seed;
    std::uint64_t end = 0;
    for (const std::uint64_t byte : c.bytes) end = std::max(end, byte + 1);
    ASSERT_EQ(file_end(c.description), end) << "seed " << seed;
    const std::uint32_t slot = dist->to_physical(size).slot;
    const std::uint64_t datafile_size = dist->physical_size(slot, size);
    std::uint64_t present = 0;
    const std::vector<SlotByte> bytes = naive(c.bytes, *dist, slot);
    for (std::uint64_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i].physical < datafile_size) present = i + 1;
    }
    ASSERT_EQ(present_bytes(c.description, *dist, slot, datafile_size), present) << "seed " << seed;
  }
}

TEST(Measure, AReadEndsAtTheFirstPieceBeyondTheEnd) {
  const std::vector<Extent> pieces{{90, 20}, {0, 10}};
  EXPECT_EQ(valid_bytes(*Description::list(pieces), 100), 10U);
  EXPECT_EQ(valid_bytes(*Description::list(pieces), 110), 30U);
  EXPECT_EQ(valid_bytes(*Description::list(pieces), 90), 0U);
  EXPECT_EQ(valid_bytes(*Description::contiguous(40, 100), 100), 60U);
  EXPECT_EQ(valid_bytes(*Description::contiguous(100, 1), 100), 0U);
}

TEST(Measure, EveryOverlapIsFound) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    const bool disjoint = std::set<std::uint64_t>(c.bytes.begin(), c.bytes.end()).size() == c.bytes.size();
    ASSERT_EQ(check_disjoint(c.description).has_value(), disjoint) << "seed " << seed;
  }
}

TEST(Measure, InterleavedPatternsAreProvedOrRefused) {
  // A matrix of 2^12 x 2^12 in column order: its levels nest when sorted by stride.
  const std::vector<Level> transposed{{1ULL << 12U, 8}, {1ULL << 12U, 1ULL << 15U}};
  EXPECT_OK(check_disjoint(*Description::strided(0, 8, transposed)));
  // Even and odd bytes that do not nest, too many to compare.
  const std::vector<Level> odd{{2, 5}, {1ULL << 16U, 2}};
  EXPECT_ERRC(check_disjoint(*Description::strided(0, 1, odd)), Errc::kInvalidArgument);
}

TEST(MemoryMap, YieldsTheMemoryOfEachRange) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SeededRandom random(seed);
    std::vector<std::byte> memory(300);
    std::vector<MutableByteView> buffers;
    std::vector<std::byte*> expected;
    for (std::uint64_t n = random.below(6); n > 0; --n) {
      const std::uint64_t at = random.below(250);
      buffers.push_back(MutableByteView(memory).subspan(at, random.below(50)));
      for (std::byte& b : buffers.back()) expected.push_back(&b);
    }
    const MemoryMap map(buffers);
    ASSERT_EQ(map.total_bytes(), expected.size());
    const std::uint64_t first = random.below(expected.size() + 1);
    const std::uint64_t size = random.below(expected.size() - first + 1);
    const std::uint64_t half = random.below(size + 1);
    std::vector<MutableByteView> parts;
    map.append(first, half, parts);
    map.append(first + half, size - half, parts);
    std::vector<std::byte*> got;
    for (const MutableByteView part : parts) {
      for (std::byte& b : part) got.push_back(&b);
    }
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
    ASSERT_EQ(got, std::vector<std::byte*>(begin, begin + static_cast<std::ptrdiff_t>(size))) << "seed " << seed;
    ASSERT_LE(parts.size(), buffers.size()) << "not merged, seed " << seed;
  }
}

TEST(MemoryMap, FillsTheRightRangesWithZeros) {
  std::vector<std::byte> memory(8, std::byte{1});
  const std::vector<MutableByteView> buffers{MutableByteView(memory).subspan(4, 4), MutableByteView(memory).first(4)};
  fill_zeros(MemoryMap(buffers), 3, 3);
  const std::byte o{1};
  const std::byte z{0};
  EXPECT_EQ(memory, (std::vector<std::byte>{z, z, o, o, o, o, o, z}));
}

}  // namespace
}  // namespace spate::datatype
