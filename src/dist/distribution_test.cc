// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include "base/expect.h"
#include "base/random.h"
#include "dist/registry.h"
#include "dist/simple_stripe.h"
#include "dist/twod_stripe.h"
#include "dist/varstrip.h"

namespace spate {
namespace {

/// A stripe with a random number of slots and strip size: small, odd, or huge.
SimpleStripe draw_stripe(Random& random) {
  const std::uint64_t slots = random.chance(1, 8) ? 1 + random.below(kMaxSlots) : 1 + random.below(9);
  const std::uint64_t strip = random.chance(1, 4) ? 1 + random.below(kMaxStripBytes) : 1 + random.below(70000);
  return {slots, strip};
}

std::uint64_t draw_offset(Random& random) {
  return random.next() >> (2 + random.below(62));  // every magnitude below 2^62
}

std::vector<std::uint64_t> datafile_sizes(const Distribution& dist, std::uint64_t logical_size) {
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t slot = 0; slot < dist.slot_count(); ++slot) {
    sizes.push_back(dist.physical_size(slot, logical_size));
  }
  return sizes;
}

TEST(SimpleStripe, PlacesTheExampleOfThePaper) {
  // PVFS Table 1: pcount 3, ssize 65536.
  const SimpleStripe dist(3, 65536);
  EXPECT_EQ(dist.to_physical(0), (Physical{0, 0}));
  EXPECT_EQ(dist.to_physical(65535), (Physical{0, 65535}));
  EXPECT_EQ(dist.to_physical(65536), (Physical{1, 0}));
  EXPECT_EQ(dist.to_physical(2 * 65536 + 7), (Physical{2, 7}));
  EXPECT_EQ(dist.to_physical(3 * 65536 + 1), (Physical{0, 65537}));
  EXPECT_EQ(dist.contiguous_bytes(65536 + 6), 65530U);
}

TEST(SimpleStripe, LogicalToPhysicalAndBackIsIdentity) {
  SeededRandom random(1);
  for (int i = 0; i < 20000; ++i) {
    const SimpleStripe dist = draw_stripe(random);
    const std::uint64_t logical = draw_offset(random);
    const Physical at = dist.to_physical(logical);
    ASSERT_LT(at.slot, dist.slot_count());
    ASSERT_EQ(dist.to_logical(at.slot, at.offset), logical);
    ASSERT_EQ(dist.physical_size(at.slot, logical), at.offset);
    ASSERT_EQ(dist.physical_size(at.slot, logical + 1), at.offset + 1);
    ASSERT_EQ(dist.next_in_slot(at.slot, logical), logical);
  }
}

TEST(SimpleStripe, EachByteFollowsTheDefinition) {
  // Computes the definition step by step, without a division.
  for (const std::uint64_t slots : {1U, 2U, 3U, 7U}) {
    for (const std::uint64_t strip : {1U, 2U, 5U, 8U}) {
      const SimpleStripe dist(slots, strip);
      std::vector<std::uint64_t> used(slots, 0);
      std::uint64_t logical = 0;
      for (std::uint32_t slot = 0; logical < 500; slot = static_cast<std::uint32_t>((slot + 1) % slots)) {
        for (std::uint64_t i = 0; i < strip; ++i, ++logical) {
          ASSERT_EQ(datafile_sizes(dist, logical), used);
          ASSERT_EQ(dist.to_physical(logical), (Physical{slot, used[slot]}));
          if (slots != 1) ASSERT_EQ(dist.contiguous_bytes(logical), strip - i);
          ++used[slot];
        }
      }
    }
  }
}

TEST(SimpleStripe, ASingleSlotIsOneRun) {
  const SimpleStripe dist(1, 4096);
  EXPECT_GE(dist.contiguous_bytes(5000), kMaxFileBytes - 5000);
  EXPECT_EQ(dist.to_physical(123456789), (Physical{0, 123456789}));
}

TEST(Distribution, WithHolesTheLastByteOfAnyDatafileGivesTheSize) {
  const SimpleStripe dist(3, 10);
  EXPECT_EQ(dist.logical_size(std::array<std::uint64_t, 3>{0, 0, 0}), 0U);
  EXPECT_EQ(dist.logical_size(std::array<std::uint64_t, 3>{0, 0, 1}), 21U);
  EXPECT_EQ(dist.logical_size(std::array<std::uint64_t, 3>{1, 25, 3}), 75U);
}

TEST(Distribution, ForeignSizesDoNotOverflow) {
  const SimpleStripe dist(2, 4096);
  EXPECT_EQ(dist.logical_size(std::array<std::uint64_t, 2>{5, ~0ULL}), kMaxFileBytes);
}

TEST(VarStrip, GivesTheListedStripsToTheListedSlots) {
  const VarStrip dist(2, {{0, 10}, {1, 30}, {0, 5}});
  EXPECT_EQ(dist.to_physical(9), (Physical{0, 9}));
  EXPECT_EQ(dist.to_physical(10), (Physical{1, 0}));
  EXPECT_EQ(dist.to_physical(39), (Physical{1, 29}));
  EXPECT_EQ(dist.to_physical(40), (Physical{0, 10}));
  EXPECT_EQ(dist.to_physical(45), (Physical{0, 15}));
  EXPECT_EQ(dist.to_physical(45 + 12), (Physical{1, 32}));
  EXPECT_EQ(dist.contiguous_bytes(12), 28U);
}

TEST(TwodStripe, StaysInAGroupForItsRoundsAndGoesToTheNext) {
  const TwodStripe dist(4, 10, {.count = 2, .factor = 2});
  EXPECT_EQ(dist.to_physical(0), (Physical{0, 0}));
  EXPECT_EQ(dist.to_physical(10), (Physical{1, 0}));
  EXPECT_EQ(dist.to_physical(20), (Physical{0, 10}));
  EXPECT_EQ(dist.to_physical(39), (Physical{1, 19}));
  EXPECT_EQ(dist.to_physical(40), (Physical{2, 0}));
  EXPECT_EQ(dist.to_physical(79), (Physical{3, 19}));
  EXPECT_EQ(dist.to_physical(80), (Physical{0, 20}));
}

TEST(MakeDistribution, ReadsTheLayoutAndRefusesWhatIsOutOfRange) {
  Layout layout;
  layout.strip_bytes = 65536;
  EXPECT_ERRC(make_distribution(layout), Errc::kInvalidArgument);
  layout.slots.resize(3);
  const auto dist = make_distribution(layout);
  ASSERT_OK(dist);
  EXPECT_EQ((*dist)->slot_count(), 3U);
  EXPECT_EQ((*dist)->to_physical(65536 + 5), (Physical{1, 5}));
  layout.strip_bytes = kMinStripBytes - 1;
  EXPECT_ERRC(make_distribution(layout), Errc::kInvalidArgument);
  layout.strip_bytes = kMaxStripBytes + 1;
  EXPECT_ERRC(make_distribution(layout), Errc::kInvalidArgument);
  layout.strip_bytes = 65536;
  layout.slots.resize(kMaxSlots + 1);
  EXPECT_ERRC(make_distribution(layout), Errc::kInvalidArgument);
  layout.slots.resize(1);
  layout.distribution.kind = 255;
  EXPECT_ERRC(make_distribution(layout), Errc::kNotSupported);
}

}  // namespace
}  // namespace spate
