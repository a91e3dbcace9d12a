// SPDX-License-Identifier: Apache-2.0
// Data, holes and copies of bytestreams, for every module.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "trove/bytestream_harness.h"

namespace spate::trove {
namespace {

constexpr std::uint64_t kMega = 1U << 20U;
constexpr std::uint64_t kBlock = 4096;

class SparseTest : public BytestreamTest {
 protected:
  BytestreamCompletion ranges(DatafileId datafile, std::uint64_t from, std::uint32_t max) {
    OwnedRequest request;
    request.request.op = BytestreamOp::kDataRanges;
    request.request.id = datafile;
    request.request.size = from;
    request.request.max_ranges = max;
    return wait(post_request(std::move(request)));
  }
  BytestreamCompletion copy(DatafileId from, std::uint64_t offset, DatafileId to, Extent where) {
    OwnedRequest request;
    request.request.op = BytestreamOp::kCopy;
    request.request.id = to;
    request.request.source = from;
    request.request.source_offset = offset;
    request.extents = {where};
    return wait(post_request(std::move(request)));
  }
};

TEST_P(SparseTest, DataRangesContainAllWrittenBytesAndNoHoles) {
  EXPECT_EQ(ranges(id(1), 0, 10).complete_to, kMaxDatafileBytes);  // never written
  EXPECT_THAT(ranges(id(1), 0, 10).ranges, testing::IsEmpty());
  write(id(1), 0, pattern(1, kBlock));
  write(id(1), kMega, pattern(2, 2 * kBlock));
  write(id(1), 8 * kMega, pattern(3, 100));
  const BytestreamCompletion all = ranges(id(1), 0, 10);
  ASSERT_EQ(all.status, Errc::kOk);
  EXPECT_EQ(all.stat.size, 8 * kMega + 100);
  EXPECT_EQ(all.complete_to, kMaxDatafileBytes);
  const std::vector<Extent> want{{0, kBlock}, {kMega, 2 * kBlock}, {8 * kMega, 100}};
  EXPECT_EQ(all.ranges, want);
  const BytestreamCompletion two = ranges(id(1), 100, 2);
  EXPECT_EQ(two.ranges, (std::vector<Extent>{{100, kBlock - 100}, {kMega, 2 * kBlock}}));
  EXPECT_EQ(two.complete_to, kMega + 2 * kBlock);
  EXPECT_THAT(ranges(id(1), 9 * kMega, 1).ranges, testing::IsEmpty());
  run(BytestreamOp::kPunch, id(1), {{kMega, kBlock}});
  EXPECT_EQ(ranges(id(1), kBlock, 1).ranges, (std::vector<Extent>{{kMega + kBlock, kBlock}}));
  EXPECT_EQ(ranges(id(1), 0, 0).status, Errc::kInvalidArgument);
}

TEST_P(SparseTest, ACopyHasTheBytesTheHolesAndTheLength) {
  const Bytes front = pattern(4, 10'000);
  write(id(1), 500, front);
  write(id(1), 2 * kMega, pattern(5, 3000));
  write(id(2), 0, pattern(6, kMega));  // holes of the source replace data here
  const BytestreamCompletion done = copy(id(1), 0, id(2), {kBlock, 3 * kMega});
  ASSERT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.stat.size, 3 * kMega + kBlock);
  Bytes want(3 * kMega, std::byte{0});
  std::copy(front.begin(), front.end(), want.begin() + 500);
  const Bytes back = pattern(5, 3000);
  std::copy(back.begin(), back.end(), want.begin() + 2 * kMega);
  EXPECT_EQ(read(id(2), kBlock, 3 * kMega), want);
  EXPECT_EQ(read(id(2), 0, kBlock), pattern(6, kBlock));
  EXPECT_GT(done.stat.change_counter, 0U);
  EXPECT_EQ(stat(id(1)).size, 2 * kMega + 3000);  // the source is unchanged
}

TEST_P(SparseTest, ACopyOfAMissingDatafileIsAHole) {
  const BytestreamCompletion done = copy(id(8), 0, id(9), {kBlock, 10'000});
  ASSERT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.stat.size, kBlock + 10'000);
  EXPECT_EQ(read(id(9), 0, kBlock + 10'000), Bytes(kBlock + 10'000, std::byte{0}));
}

TEST_P(SparseTest, ADatafileIsCopiedWithinItselfUnlessTheRangesOverlap) {
  const Bytes data = pattern(7, 100'000);
  write(id(1), 0, data);
  EXPECT_EQ(copy(id(1), 0, id(1), {99'999, 100'000}).status, Errc::kInvalidArgument);
  EXPECT_EQ(copy(id(1), 50'000, id(1), {0, 50'001}).status, Errc::kInvalidArgument);
  ASSERT_EQ(copy(id(1), 0, id(1), {100'000, 100'000}).status, Errc::kOk);
  EXPECT_EQ(read(id(1), 100'000, 100'000), data);
}

INSTANTIATE_TEST_SUITE_P(Modules, SparseTest, testing::ValuesIn(backend_names()),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

}  // namespace
}  // namespace spate::trove
