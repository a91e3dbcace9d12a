// SPDX-License-Identifier: Apache-2.0
#include "flow/stream_sizes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/expect.h"
#include "base/random.h"
#include "datatype/description_cases.h"
#include "datatype/measure.h"
#include "dist/simple_stripe.h"
#include "job/gate.h"

namespace spate::flow {
namespace {

/// Counts how often a walk looks for the next strip of its slot. A walk that finds no byte of its slot looks once for
/// each block.
class CountingStripe final : public Distribution {
 public:
  CountingStripe(std::size_t slots, std::uint64_t strip_bytes) : stripe_(slots, strip_bytes) {}
  std::size_t slot_count() const override { return stripe_.slot_count(); }
  Physical to_physical(std::uint64_t logical) const override { return stripe_.to_physical(logical); }
  std::uint64_t to_logical(std::uint32_t slot, std::uint64_t physical) const override {
    return stripe_.to_logical(slot, physical);
  }
  std::uint64_t contiguous_bytes(std::uint64_t logical) const override { return stripe_.contiguous_bytes(logical); }
  std::uint64_t physical_size(std::uint32_t slot, std::uint64_t logical_size) const override {
    ++looks_;
    return stripe_.physical_size(slot, logical_size);
  }
  std::uint64_t shift_bytes() const override { return stripe_.shift_bytes(); }
  std::uint64_t take_looks() { return std::exchange(looks_, 0); }

 private:
  SimpleStripe stripe_;
  mutable std::uint64_t looks_ = 0;
};

class StreamSizesTest : public ::testing::Test {
 protected:
  static job::Task<void> keep(job::Task<std::vector<std::uint64_t>> task, std::vector<std::uint64_t>& out) {
    out = co_await std::move(task);
  }
  ManualClock clock_;
  job::Executor executor_{clock_};
  job::Gate gate_{executor_};
};

TEST_F(StreamSizesTest, AgreeWithTheWalkUpToTheLimit) {
  SeededRandom random(7);
  const std::vector<std::uint32_t> slots{0, 1, 2};
  for (int i = 0; i < 300; ++i) {
    const auto drawn = datatype::draw_case(random);
    const SimpleStripe distribution(3, 1 + random.below(40));
    std::vector<std::uint64_t> all;
    for (const std::uint32_t slot : slots) {
      all.push_back(datatype::bytes_for_slot(drawn.description, distribution, slot));
    }
    const std::uint64_t limit = random.below(2000);
    if (std::accumulate(all.begin(), all.end(), std::uint64_t{0}) > limit) all.clear();
    EXPECT_EQ(executor_.run(stream_sizes_up_to(executor_, drawn.description, distribution, slots, limit)), all);
  }
}

// Every block lies in the last slot, and the others are measured.
TEST_F(StreamSizesTest, OthersRunWhileSlotsWithoutAByteAreMeasured) {
  constexpr std::uint32_t kSlots = 17;
  constexpr std::uint64_t kStrip = 65536;
  constexpr std::uint64_t kBlocks = 60000;
  CountingStripe distribution(kSlots, kStrip);
  const datatype::Level level{kBlocks, kSlots * kStrip};
  const auto what = datatype::Description::strided((kSlots - 1) * kStrip, 1, {&level, 1});
  ASSERT_OK(what);
  std::vector<std::uint32_t> slots(kSlots - 1);
  std::iota(slots.begin(), slots.end(), 0U);
  std::vector<std::uint64_t> sizes;
  job::spawn(gate_, keep(stream_sizes_up_to(executor_, *what, distribution, slots, 4096), sizes));
  std::uint64_t most = distribution.take_looks();
  std::uint64_t all = most;
  while (sizes.empty()) {
    ASSERT_TRUE(executor_.step());
    const std::uint64_t looks = distribution.take_looks();
    most = std::max(most, looks);
    all += looks;
  }
  EXPECT_EQ(sizes, std::vector<std::uint64_t>(slots.size(), 0));
  EXPECT_GE(all, kBlocks * slots.size());  // so the walk needs pauses
  EXPECT_LE(most, 2 * datatype::SlotCursor::kMaxStepsPerBatch);
}

}  // namespace
}  // namespace spate::flow
