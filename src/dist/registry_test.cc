// SPDX-License-Identifier: Apache-2.0
// Tests the promises of every registered distribution, with the parameters that it gives as examples, and many numbers
// of slots and strip sizes.
#include "dist/registry.h"

#include <gmock/gmock.h>

#include <set>

#include "base/expect.h"
#include "base/random.h"
#include "model/layout.h"

namespace spate {
namespace {

struct Sample {
  std::string text;  // the form that users write
  std::uint64_t strip_bytes = 0;
  std::unique_ptr<const Distribution> distribution;
  std::string name() const {
    return text + " strips of " + std::to_string(strip_bytes) + " over " + std::to_string(distribution->slot_count());
  }
};

std::string text_of(const DistributionType& type, const std::string& parameters) {
  return std::string(type.name()) + (parameters.empty() ? "" : ":" + parameters);
}

/// Adds samples with the slots that `wanted` targets give. Leaves out distributions that need more.
void add_samples(const std::string& text, std::size_t wanted, std::vector<Sample>& samples) {
  const auto spec = parse_distribution(text);
  ASSERT_OK(spec);
  const auto slots = slots_of(*spec, wanted, wanted);
  if (!slots) return;
  ASSERT_GE(*slots, 1U);
  ASSERT_LE(*slots, wanted);
  for (const std::uint64_t strip : {kMinStripBytes, std::uint64_t{5000}, std::uint64_t{65536}, kMaxStripBytes}) {
    auto made = make_distribution(*spec, strip, *slots);
    ASSERT_OK(made);
    samples.push_back({text, strip, std::move(*made)});
  }
}

std::vector<Sample> all_samples() {
  std::vector<Sample> samples;
  for (const DistributionType* type : distribution_types()) {
    const std::size_t before = samples.size();
    for (const std::string& parameters : type->examples()) {
      for (const std::size_t wanted : {1U, 2U, 3U, 4U, 7U, 12U, 4096U}) {
        add_samples(text_of(*type, parameters), wanted, samples);
      }
    }
    EXPECT_GT(samples.size(), before) << type->name() << " has no example";
  }
  return samples;
}

std::uint64_t any_offset(Random& random) {
  return random.next() >> (2 + random.below(62));  // every magnitude below 2^62
}

TEST(EachDistribution, PlacesEachByteOnceWithoutAGap) {
  for (const Sample& sample : all_samples()) {
    const Distribution& dist = *sample.distribution;
    const std::size_t slots = dist.slot_count();
    if (slots > 12) continue;
    std::vector<std::uint64_t> used(slots, 0);
    std::uint64_t logical = 0;
    for (int pieces = 0; pieces < 300; ++pieces) {
      const Physical at = dist.to_physical(logical);
      ASSERT_LT(at.slot, slots) << sample.name();
      ASSERT_EQ(at.offset, used[at.slot]) << sample.name() << " at " << logical;
      const std::uint64_t piece = std::min<std::uint64_t>(dist.contiguous_bytes(logical), kMaxStripBytes);
      ASSERT_GE(piece, 1U) << sample.name();
      const std::uint64_t last = logical + piece - 1;
      ASSERT_EQ(dist.to_physical(last), (Physical{at.slot, at.offset + piece - 1})) << sample.name() << " at " << last;
      for (std::uint32_t slot = 0; slot < slots; ++slot) {
        ASSERT_EQ(dist.physical_size(slot, logical), used[slot]) << sample.name() << " at " << logical;
        const std::uint64_t of_piece = slot == at.slot ? piece / 2 : 0;
        ASSERT_EQ(dist.physical_size(slot, logical + piece / 2), used[slot] + of_piece) << sample.name();
      }
      used[at.slot] += piece;
      logical += piece;
    }
  }
}

TEST(EachDistribution, LeadsFromLogicalToPhysicalAndBack) {
  SeededRandom random(1);
  for (const Sample& sample : all_samples()) {
    const Distribution& dist = *sample.distribution;
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t logical = any_offset(random);
      const Physical at = dist.to_physical(logical);
      ASSERT_LT(at.slot, dist.slot_count()) << sample.name();
      ASSERT_EQ(dist.to_logical(at.slot, at.offset), logical) << sample.name();
      ASSERT_EQ(dist.physical_size(at.slot, logical), at.offset) << sample.name();
      ASSERT_EQ(dist.physical_size(at.slot, logical + 1), at.offset + 1) << sample.name();
      ASSERT_EQ(dist.next_in_slot(at.slot, logical), logical) << sample.name();
    }
  }
}

TEST(EachDistribution, SharesSumUpToTheSizeAndYieldItBack) {
  SeededRandom random(2);
  for (const Sample& sample : all_samples()) {
    const Distribution& dist = *sample.distribution;
    if (dist.slot_count() > 12) continue;
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t size = any_offset(random);
      std::vector<std::uint64_t> shares;
      std::uint64_t sum = 0;
      for (std::uint32_t slot = 0; slot < dist.slot_count(); ++slot) {
        shares.push_back(dist.physical_size(slot, size));
        sum += shares.back();
      }
      ASSERT_EQ(sum, size) << sample.name();
      ASSERT_EQ(dist.logical_size(shares), size) << sample.name();
    }
  }
}

TEST(EachDistribution, AcceptsTheLargestFileAndOffsetsFromTheNetwork) {
  SeededRandom random(3);
  for (const Sample& sample : all_samples()) {
    const Distribution& dist = *sample.distribution;
    const Physical last = dist.to_physical(kMaxFileBytes - 1);
    ASSERT_EQ(dist.to_logical(last.slot, last.offset), kMaxFileBytes - 1) << sample.name();
    for (int i = 0; i < 50; ++i) {
      const auto slot = static_cast<std::uint32_t>(random.below(dist.slot_count()));
      ASSERT_EQ(dist.to_logical(slot, dist.physical_size(slot, kMaxFileBytes)), kMaxFileBytes) << sample.name();
      ASSERT_EQ(dist.to_logical(slot, ~0ULL - random.below(1000)), kMaxFileBytes) << sample.name();
    }
  }
}

TEST(EachDistribution, KeepsTheShapeOfARangeThatMovesByItsShift) {
  SeededRandom random(4);
  for (const Sample& sample : all_samples()) {
    const Distribution& dist = *sample.distribution;
    ASSERT_GE(dist.shift_bytes(), 1U) << sample.name();
    if (dist.shift_bytes() > kMaxFileBytes / 8) continue;
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t from = any_offset(random) / 4;
      const std::uint64_t to = from + dist.shift_bytes() * random.below(4);
      ASSERT_EQ(std::min(dist.contiguous_bytes(from), kMaxFileBytes / 2),
                std::min(dist.contiguous_bytes(to), kMaxFileBytes / 2))
          << sample.name() << " at " << from;
    }
  }
}

TEST(EachDistribution, HasANumberAndANameOfItsOwn) {
  std::set<std::uint8_t> kinds;
  std::set<std::string_view> names;
  for (const DistributionType* type : distribution_types()) {
    EXPECT_NE(type->kind(), 0);
    EXPECT_TRUE(kinds.insert(type->kind()).second) << type->name();
    EXPECT_TRUE(names.insert(type->name()).second) << type->name();
    EXPECT_THAT(type->summary(), testing::Not(testing::IsEmpty())) << type->name();
  }
  EXPECT_EQ(distribution_types().front()->kind(), DistributionSpec().kind) << "the default comes first";
}

TEST(EachDistribution, DescribesItsParametersAsTheyWereWritten) {
  for (const DistributionType* type : distribution_types()) {
    for (const std::string& parameters : type->examples()) {
      const auto spec = parse_distribution(text_of(*type, parameters));
      ASSERT_OK(spec);
      const auto again = parse_distribution(describe(*spec));
      ASSERT_OK(again) << describe(*spec);
      EXPECT_EQ(*again, *spec) << describe(*spec);
      EXPECT_LE(spec->parameters.size(), kMaxDistributionBytes);
    }
  }
}

TEST(EachDistribution, RefusesTruncatedOrAlteredParameters) {
  SeededRandom random(5);
  for (const DistributionType* type : distribution_types()) {
    auto spec = *parse_distribution(text_of(*type, type->examples().back()));
    const Bytes whole = spec.parameters;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      spec.parameters.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const auto slots = slots_of(spec, kMaxSlots, kMaxSlots);
      if (!slots) continue;
      EXPECT_OK(make_distribution(spec, kMinStripBytes, *slots));  // with fewer slots, but complete
    }
    for (int i = 0; i < 300; ++i) {
      spec.parameters = whole;
      spec.parameters.push_back(std::byte{0});
      spec.parameters[random.below(spec.parameters.size())] = static_cast<std::byte>(random.below(256));
      const auto made = make_distribution(spec, kMinStripBytes, 1 + random.below(8));
      if (!made) continue;  // the altered parameters may be valid, too
      EXPECT_EQ((*made)->to_logical(0, 0), (*made)->next_in_slot(0, 0));
    }
  }
}

TEST(ParseDistribution, NamesTheMistake) {
  const auto message = [](const char* text) {
    const auto spec = parse_distribution(text);
    return spec ? std::string("taken") : spec.error().context();
  };
  EXPECT_THAT(message("simple"),
              ::testing::HasSubstr("there is no distribution \"simple\"; there are: simple_stripe, basic"));
  EXPECT_EQ(message("basic:3"), "basic: it takes no parameters");
  EXPECT_EQ(message("varstrip"), "varstrip: at least one strip is needed, as in varstrip:64 KiB,1 MiB");
  EXPECT_EQ(message("varstrip:1 KiB"), "varstrip: a strip has 4 KiB to 4 GiB");
  EXPECT_EQ(message("varstrip:x:4 KiB"), "varstrip: \"x\" is no slot's number");
  EXPECT_EQ(message("varstrip:1:4 KiB"), "varstrip: no strip is for slot 0, though a later slot has one");
  EXPECT_EQ(message("varstrip:9999:4 KiB"), "varstrip: slots are numbered 0 to 4095");
  EXPECT_EQ(message("twod_stripe"), "twod_stripe: groups and rounds are two numbers, as in twod_stripe:2,16");
  EXPECT_EQ(message("twod_stripe:0,1"), "twod_stripe: there are 1 to 4096 groups");
  EXPECT_EQ(message("twod_stripe:2,0"), "twod_stripe: a group has 1 to 65536 rounds before the next one");
}

TEST(ParseDistribution, BoundsTheLengthOfAList) {
  std::string text = "varstrip:4 KiB";
  for (int i = 0; i < 408; ++i) text += ",0:4 KiB";
  EXPECT_OK(parse_distribution(text));
  text += ",0:4 KiB";
  EXPECT_ERRC(parse_distribution(text), Errc::kInvalidArgument);
}

TEST(SlotsOf, FollowsTheDistribution) {
  const auto slots = [](const char* text, std::size_t wanted) {
    return slots_of(*parse_distribution(text), wanted, 5).value_or(0);
  };
  EXPECT_EQ(slots("simple_stripe", 5), 5U);
  EXPECT_EQ(slots("basic", 5), 1U);
  EXPECT_EQ(slots("varstrip:4 KiB,8 KiB,0:4 KiB", 5), 2U);
  EXPECT_EQ(slots("varstrip:4 KiB,8 KiB", 1), 2U) << "the list says how many";
  EXPECT_EQ(slots("twod_stripe:2,4", 5), 4U);
  EXPECT_EQ(slots("twod_stripe:2,4", 1), 2U) << "each group has a slot";
}

TEST(SlotsOf, RefusesADistributionThatNeedsMoreTargets) {
  EXPECT_ERRC(slots_of(*parse_distribution("varstrip:4 KiB,8 KiB"), 1, 1), Errc::kInvalidArgument);
  EXPECT_ERRC(slots_of(*parse_distribution("twod_stripe:2,4"), 1, 1), Errc::kInvalidArgument);
  EXPECT_ERRC(slots_of({255, {}}, 5, 5), Errc::kNotSupported);
}

}  // namespace
}  // namespace spate
