// SPDX-License-Identifier: Apache-2.0
#include "trove/mem/mem_store.h"

#include "base/expect.h"

namespace spate::trove {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr DatafileId kFile{Handle(1), 0};

class MemStoreTest : public testing::Test {
 protected:
  BytestreamCompletion run(BytestreamOp op, std::vector<Extent> extents, DatafileId id = kFile,
                           std::uint64_t size = 0) {
    Bytes data(op == BytestreamOp::kWrite ? extents[0].size : 0, std::byte{7});
    const std::vector<MutableByteView> memory{data};
    BytestreamRequest request;
    request.op = op;
    request.id = id;
    request.extents = extents;
    if (op == BytestreamOp::kWrite) request.memory = memory;
    request.size = size;
    BytestreamCompletion done;
    EXPECT_TRUE(streams.post(request, this, done));
    return done;
  }
  std::uint64_t free() { return streams.space().value().free_bytes; }

  MemBytestreams streams{std::make_shared<MemStore>(16 * kPage)};
};

TEST_F(MemStoreTest, CapacityIsKeptAndGivenBack) {
  EXPECT_EQ(run(BytestreamOp::kWrite, {{0, 10 * kPage}}).status, Errc::kOk);
  EXPECT_EQ(free(), 6 * kPage);
  EXPECT_EQ(run(BytestreamOp::kWrite, {{0, 7 * kPage}}, {Handle(2), 0}).status, Errc::kNoSpace);
  EXPECT_EQ(run(BytestreamOp::kStat, {}, {Handle(2), 0}).stat.size, 0U);
  EXPECT_EQ(run(BytestreamOp::kWrite, {{0, 16 * kPage}}).status, Errc::kOk) << "only six pages of it are new";
  EXPECT_EQ(free(), 0U);
  EXPECT_EQ(run(BytestreamOp::kWrite, {{5, 100}}).status, Errc::kOk) << "nothing new";
  EXPECT_EQ(run(BytestreamOp::kWrite, {{16 * kPage, 1}}).status, Errc::kNoSpace);
  EXPECT_EQ(run(BytestreamOp::kPunch, {{0, 4 * kPage}}).status, Errc::kOk);
  EXPECT_EQ(free(), 4 * kPage);
  EXPECT_EQ(run(BytestreamOp::kTruncate, {}, kFile, 8 * kPage).status, Errc::kOk);
  EXPECT_EQ(free(), 12 * kPage);
  EXPECT_EQ(run(BytestreamOp::kAllocate, {{0, 20 * kPage}}).status, Errc::kNoSpace);
  EXPECT_EQ(run(BytestreamOp::kRemove, {}).status, Errc::kOk);
  EXPECT_EQ(free(), 16 * kPage);
}

TEST_F(MemStoreTest, HolesCostNothing) {
  EXPECT_EQ(run(BytestreamOp::kTruncate, {}, kFile, std::uint64_t{1} << 40U).status, Errc::kOk);
  EXPECT_EQ(run(BytestreamOp::kWrite, {{std::uint64_t{1} << 39U, 10}}).status, Errc::kOk);
  EXPECT_EQ(free(), 15 * kPage);
}

}  // namespace
}  // namespace spate::trove
