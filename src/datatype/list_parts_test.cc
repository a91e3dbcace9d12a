// SPDX-License-Identifier: Apache-2.0
#include "datatype/list_parts.h"

#include <algorithm>

#include "base/expect.h"
#include "datatype/description_cases.h"
#include "datatype/measure.h"
#include "dist/simple_stripe.h"

namespace spate::datatype {
namespace {

/// The slot's stream as extents of its datafile, neighbours merged.
std::vector<Extent> extents_of(const Description& description, const Distribution& dist, std::uint32_t slot) {
  std::vector<Extent> all;
  std::vector<Extent> batch;
  for (SlotCursor cursor(description, dist, slot); !cursor.done();) {
    cursor.next_extents({}, batch);
    for (const Extent& extent : batch) {
      if (!all.empty() && all.back().offset + all.back().size == extent.offset) {
        all.back().size += extent.size;
      } else {
        all.push_back(extent);
      }
    }
  }
  return all;
}

bool touches(const Extent& piece, const Distribution& dist, std::span<const std::size_t> group_of, std::size_t group) {
  for (std::uint64_t byte = piece.offset; byte < piece.offset + piece.size; ++byte) {
    if (group_of[dist.to_physical(byte).slot] == group) return true;
  }
  return false;
}

TEST(ListParts, EachPartHasOnlyTheStreamsAndPiecesOfItsSlots) {
  std::size_t lists = 0;
  for (std::uint64_t seed = 1; seed <= 5000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const DescriptionCase c = draw_list(random, random.below(500));
    if (c.description.kind() != DescriptionKind::kList) continue;
    ++lists;
    const SimpleStripe dist(1 + random.below(6), 1 + random.below(40));
    const std::size_t groups = 1 + random.below(3);
    std::vector<std::size_t> group_of;  // one past the last: no group wants the slot
    for (std::size_t slot = 0; slot < dist.slot_count(); ++slot) group_of.push_back(random.below(groups + 1));
    const std::vector<Description> parts = split_list(c.description, dist, group_of, groups);
    ASSERT_EQ(parts.size(), groups);
    for (std::uint32_t slot = 0; slot < dist.slot_count(); ++slot) {
      if (group_of[slot] == groups) continue;
      ASSERT_EQ(extents_of(parts[group_of[slot]], dist, slot), extents_of(c.description, dist, slot));
    }
    for (std::size_t group = 0; group < groups; ++group) {
      std::size_t wanted = 0;
      for (const Extent& piece : c.description.pieces()) wanted += touches(piece, dist, group_of, group) ? 1 : 0;
      ASSERT_LE(parts[group].blocks(), wanted);  // fewer where the pieces between belong to another group
      for (const Extent& piece : parts[group].pieces()) ASSERT_TRUE(touches(piece, dist, group_of, group));
    }
  }
  EXPECT_GT(lists, 1000U);
}

TEST(ListParts, APieceOfManyStripsGoesToEverySlotThatItReaches) {
  const SimpleStripe dist(3, 10);
  const std::vector<Extent> pieces{{0, 1000}, {2000, 3}};
  const std::vector<std::size_t> each{0, 1, 2};
  const std::vector<Description> parts = split_list(*Description::list(pieces), dist, each, 3);
  EXPECT_EQ(parts[0], *Description::contiguous(0, 1000));
  EXPECT_EQ(parts[1], *Description::contiguous(0, 1000));
  EXPECT_EQ(parts[2], *Description::list(pieces));  // byte 2000 lies in strip 200, slot 2
}

}  // namespace
}  // namespace spate::datatype
