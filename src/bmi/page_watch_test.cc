// SPDX-License-Identifier: Apache-2.0
#include "bmi/page_watch.h"

#include <sys/mman.h>

#include <vector>

#include "base/expect.h"

namespace spate::bmi {
namespace {

constexpr std::size_t kPageBytes = 4096;

struct PageWatchTest : testing::Test {
  void SetUp() override {
    Result<std::unique_ptr<PageWatch>> started = PageWatch::start();
    if (!started) GTEST_SKIP() << "the kernel does not let this process watch: " << started.error().message();
    watch = std::move(*started);
    memory = static_cast<std::byte*>(
        ::mmap(nullptr, 16 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_TRUE(watch->watch(pages(0, 16))) << "the kernel refuses to watch 16 pages";
  }
  void TearDown() override {
    if (memory != nullptr) ::munmap(memory, 16 * kPageBytes);
  }
  PageRange pages(std::size_t first, std::size_t count) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory) + first * kPageBytes;
    return {begin, begin + count * kPageBytes};
  }
  /// Whether `page` is among the pages that ended since the last call.
  testing::AssertionResult ended(std::size_t page) {
    bool found = false;
    std::size_t ranges = 0;
    watch->take_ended([&](const PageRange& range) {
      found = found || range.overlaps(pages(page, 1));
      ++ranges;
    });
    return (found ? testing::AssertionSuccess() : testing::AssertionFailure())
           << "page " << page << " is " << (found ? "" : "not ") << "among the " << ranges << " ranges that ended";
  }
  std::unique_ptr<PageWatch> watch;
  std::byte* memory = nullptr;
};

TEST_F(PageWatchTest, ReportsUnmappedPages) {
  EXPECT_FALSE(ended(3));
  ASSERT_EQ(::munmap(memory + 3 * kPageBytes, kPageBytes), 0);
  EXPECT_TRUE(ended(3));
  EXPECT_FALSE(ended(3));
}

TEST_F(PageWatchTest, ReportsReplacedPages) {
  ASSERT_NE(::mmap(memory + 5 * kPageBytes, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  EXPECT_TRUE(ended(5));
}

TEST_F(PageWatchTest, ReportsDroppedPages) {
  memory[7 * kPageBytes] = std::byte{1};
  ASSERT_EQ(::madvise(memory + 7 * kPageBytes, kPageBytes, MADV_DONTNEED), 0);
  EXPECT_TRUE(ended(7));
}

TEST_F(PageWatchTest, ReportsMovedPages) {
  void* moved = ::mremap(memory + 8 * kPageBytes, kPageBytes, 4 * kPageBytes, MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_TRUE(ended(8));
  ::munmap(moved, 4 * kPageBytes);
}

TEST_F(PageWatchTest, ReportsMovedPagesWhoseOldPlaceStaysMapped) {
  memory[9 * kPageBytes] = std::byte{1};
  void* moved = ::mremap(memory + 9 * kPageBytes, kPageBytes, kPageBytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
  if (moved == MAP_FAILED) GTEST_SKIP() << "this kernel has no MREMAP_DONTUNMAP";
  EXPECT_TRUE(ended(9));
  ::munmap(moved, kPageBytes);
}

// When the call that ends the pages returns, the watching thread may not have passed on the kernel's report yet.
TEST_F(PageWatchTest, ReportsPagesAsSoonAsTheUnmappingReturns) {
  for (int i = 0; i < 20'000; ++i) {
    memory[0] = std::byte{1};
    ASSERT_EQ(::madvise(memory, kPageBytes, MADV_DONTNEED), 0);
    ASSERT_TRUE(ended(0)) << "after " << i;
  }
}

TEST_F(PageWatchTest, TouchingWatchedPagesIsNoEvent) {
  for (std::size_t i = 0; i < 16; ++i) memory[i * kPageBytes] = std::byte{1};
  for (std::size_t i = 0; i < 16; ++i) EXPECT_FALSE(ended(i));
}

TEST_F(PageWatchTest, ReportsNothingAfterUnwatch) {
  watch->unwatch(pages(0, 16));
  ASSERT_EQ(::munmap(memory + 3 * kPageBytes, kPageBytes), 0);
  EXPECT_FALSE(ended(3));
}

TEST_F(PageWatchTest, AnOverflowOfTheQueueReportsAllPagesAsChanged) {
  for (int i = 0; i < 3000; ++i) {
    memory[0] = std::byte{1};
    ASSERT_EQ(::madvise(memory, kPageBytes, MADV_DONTNEED), 0);
  }
  EXPECT_TRUE(ended(15));
}

}  // namespace
}  // namespace spate::bmi
