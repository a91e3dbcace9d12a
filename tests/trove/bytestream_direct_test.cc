// SPDX-License-Identifier: Apache-2.0
// Reads and writes that bypass the page cache, for every module that has them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "trove/bytestream_harness.h"

namespace spate::trove {
namespace {

class DirectAccessTest : public BytestreamTest {};

/// Blocks in memory with their alignment.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t size)
      : size_(size), memory_(static_cast<std::byte*>(std::aligned_alloc(65536, size))) {}
  MutableByteView view() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

TEST_P(DirectAccessTest, DirectAndCachedAccessSeeEachOther) {
  const std::uint64_t block = streams().direct().alignment;
  if (block == 0) GTEST_SKIP() << streams().direct().refusal;
  const auto direct = [&](BytestreamOp op, std::vector<Extent> extents, MutableByteView memory) {
    OwnedRequest request;
    request.request.op = op;
    request.request.id = id(1);
    request.request.direct = true;
    request.extents = std::move(extents);
    request.memory = {memory};
    return wait(post_request(std::move(request)));
  };
  Bytes expected = pattern(1, 40 * block + 77);
  ASSERT_EQ(write(id(1), 0, expected).status, Errc::kOk);
  const AlignedMemory memory(65536 * 40);
  // The whole file in blocks, of which the last one is short.
  const BytestreamCompletion all = direct(BytestreamOp::kRead, {{0, 41 * block}}, memory.view().first(41 * block));
  ASSERT_EQ(all.status, Errc::kOk);
  ASSERT_EQ(all.bytes, expected.size());
  EXPECT_BYTES(memory.view().first(expected.size()), expected);
  // Writes two ranges, one of them beyond the end, and reads the file back through the cache.
  const Bytes fresh = pattern(2, 12 * block);
  std::copy(fresh.begin(), fresh.end(), memory.view().begin());
  const BytestreamCompletion written =
      direct(BytestreamOp::kWrite, {{3 * block, 8 * block}, {50 * block, 4 * block}}, memory.view().first(12 * block));
  ASSERT_EQ(written.status, Errc::kOk);
  EXPECT_EQ(written.bytes, 12 * block);
  EXPECT_EQ(written.stat.size, 54 * block);
  EXPECT_GT(written.stat.change_counter, all.stat.change_counter);
  expected.resize(54 * block);
  std::copy_n(fresh.begin(), 8 * block, expected.begin() + static_cast<std::ptrdiff_t>(3 * block));
  std::copy_n(fresh.begin() + static_cast<std::ptrdiff_t>(8 * block), 4 * block,
              expected.begin() + static_cast<std::ptrdiff_t>(50 * block));
  EXPECT_BYTES(read(id(1), 0, expected.size()), expected);
  // A request that is not aligned to blocks is refused as a whole.
  EXPECT_EQ(direct(BytestreamOp::kRead, {{1, block}}, memory.view().first(block)).status, Errc::kInvalidArgument);
  EXPECT_EQ(direct(BytestreamOp::kRead, {{0, block - 1}}, memory.view().first(block - 1)).status,
            Errc::kInvalidArgument);
  EXPECT_EQ(direct(BytestreamOp::kWrite, {{0, block}}, memory.view().subspan(8, block)).status, Errc::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Modules, DirectAccessTest, testing::ValuesIn(backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spate::trove
