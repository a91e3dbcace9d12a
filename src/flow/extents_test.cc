// SPDX-License-Identifier: Apache-2.0
#include "flow/extents.h"

#include "base/expect.h"

namespace spate::flow {
namespace {

TEST(Extents, BytesBeforeEndStopsAtTheFirstByteBeyond) {
  const std::vector<Extent> run{{0, 10}, {20, 10}, {5, 5}};
  EXPECT_EQ(bytes_before_end(run, 100), 25U);
  EXPECT_EQ(bytes_before_end(run, 30), 25U);
  EXPECT_EQ(bytes_before_end(run, 29), 19U);  // though the last piece lies before the end
  EXPECT_EQ(bytes_before_end(run, 20), 10U);
  EXPECT_EQ(bytes_before_end(run, 7), 7U);
  EXPECT_EQ(bytes_before_end(run, 0), 0U);
}

TEST(Extents, KeepFirstAndDropFirstAreComplements) {
  const std::vector<Extent> run{{100, 10}, {50, 1}, {200, 7}};
  for (std::uint64_t cut = 0; cut <= 18; ++cut) {
    std::vector<Extent> head = run;
    std::vector<Extent> tail = run;
    keep_first(head, cut);
    drop_first(tail, cut);
    std::vector<std::uint64_t> bytes;
    for (const auto* part : {&head, &tail}) {
      for (const Extent& e : *part) {
        EXPECT_GT(e.size, 0U);
        for (std::uint64_t i = 0; i < e.size; ++i) bytes.push_back(e.offset + i);
      }
    }
    std::vector<std::uint64_t> whole;
    for (const Extent& e : run) {
      for (std::uint64_t i = 0; i < e.size; ++i) whole.push_back(e.offset + i);
    }
    EXPECT_EQ(bytes, whole) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace spate::flow
