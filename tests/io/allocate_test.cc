// SPDX-License-Identifier: Apache-2.0
// Reserves space, also beyond the ends of datafiles.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/io/client.h"

namespace spate::io::testing {
namespace {

class AllocateTest : public ::testing::Test {
 protected:
  Result<wire::DatafileAllocateReply> allocate(std::uint64_t offset, std::uint64_t size, bool extend) {
    wire::DatafileAllocateRequest request;
    request.where = where_;
    request.what = *datatype::Description::contiguous(offset, size);
    request.extend = extend;
    request.fs_time = world_.clock().wall();
    const Capability capability = client_.capability(kFile);
    return client_.ask<wire::DatafileAllocateReply>(request, &capability);
  }
  /// The ranges of data in the datafile in slot 0.
  std::vector<wire::DataRange> data() {
    wire::DatafileRangesRequest request;
    request.handle = kFile;
    request.slots = {where_.slots.front()};
    request.offsets = {0};
    request.max_ranges = 16;
    const Capability capability = client_.capability(kFile);
    const auto reply = client_.ask<wire::DatafileRangesReply>(request, &capability);
    EXPECT_OK(reply);
    return reply ? reply->ranges[0].ranges : std::vector<wire::DataRange>();
  }

  World world_;
  Client client_{world_};
  wire::SlotSet where_ = slot_set(kFile, 2, 4096);
};

TEST_F(AllocateTest, ExtendsEachDatafileToItsPartOfTheRange) {
  const auto reply = allocate(0, 5 * 4096 + 10, true);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->datafiles[0].size, 3U * 4096);
  EXPECT_EQ(reply->datafiles[1].size, 2U * 4096 + 10);
  EXPECT_GT(reply->datafiles[0].mtime.ns, 0);
  EXPECT_THAT(data(), ::testing::IsEmpty());
}

TEST_F(AllocateTest, NeverShortensAndSetsTheTime) {
  const auto first = allocate(0, 5 * 4096, true);
  ASSERT_OK(first);
  world_.pass(std::chrono::seconds(1));
  const auto again = allocate(0, 4096, true);
  ASSERT_OK(again);
  EXPECT_EQ(again->datafiles[0].size, first->datafiles[0].size);
  EXPECT_GT(again->datafiles[0].mtime, first->datafiles[0].mtime);
  EXPECT_GT(again->datafiles[0].change_counter, first->datafiles[0].change_counter);
}

TEST_F(AllocateTest, WithoutExtendTheSizeStays) {
  const auto reply = allocate(0, 2 * 4096, false);
  ASSERT_OK(reply);
  EXPECT_EQ(reply->datafiles[0].size, 0U);
  EXPECT_GE(reply->datafiles[0].allocated_bytes, 4096U);
}

TEST_F(AllocateTest, NeedsTheRightToWrite) {
  wire::DatafileAllocateRequest request;
  request.where = where_;
  request.what = *datatype::Description::contiguous(0, 10);
  const Capability capability = client_.capability(kFile, Rights::kRead);
  EXPECT_ERRC(client_.ask<wire::DatafileAllocateReply>(request, &capability), Errc::kCapabilityInvalid);
}

}  // namespace
}  // namespace spate::io::testing
