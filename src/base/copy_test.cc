// SPDX-License-Identifier: Apache-2.0
#include "base/copy.h"

#include <algorithm>
#include <array>

#include "base/expect.h"
#include "base/expect_bytes.h"

namespace spate {
namespace {

constexpr std::size_t kPage = 4096;

TEST(CopyTest, CopiesAreSlowWhenTheDestinationBeginsShortlyBehindTheSourceWithinAPage) {
  EXPECT_TRUE(copies_slowly(5 * kPage + 16, 2 * kPage));
  EXPECT_TRUE(copies_slowly(kPage + 1, kPage));
  EXPECT_TRUE(copies_slowly(kPage + 163, 3 * kPage + 100));
  EXPECT_TRUE(copies_slowly(kPage + 8, 3 * kPage - 8)) << "behind it across the end of a page";
  EXPECT_FALSE(copies_slowly(5 * kPage, 2 * kPage));
  EXPECT_FALSE(copies_slowly(5 * kPage + 64, 2 * kPage));
  EXPECT_FALSE(copies_slowly(5 * kPage + 2048, 2 * kPage));
  EXPECT_FALSE(copies_slowly(2 * kPage, 5 * kPage + 16)) << "before it";
}

/// Copies `size` bytes between the given offsets of a page and expects an exact copy that changes nothing beside it.
void expect_exact(std::size_t to_at, std::size_t from_at, std::size_t size) {
  Buffer from(size + 2 * kPage, kPage);
  Buffer to(size + 2 * kPage, kPage);
  for (std::size_t i = 0; i < from.size(); ++i) from.data()[i] = static_cast<std::byte>((i * 7 + i / 251) & 0x7fU);
  std::fill_n(to.data(), to.size(), std::byte{0xff});
  copy_memory(to.data() + to_at, from.data() + from_at, size);
  EXPECT_BYTES(ByteView(to.view()).subspan(to_at, size), ByteView(from.view()).subspan(from_at, size));
  const Bytes untouched(to.size(), std::byte{0xff});
  EXPECT_BYTES(ByteView(to.view()).first(to_at), ByteView(untouched).first(to_at));
  EXPECT_BYTES(ByteView(to.view()).subspan(to_at + size), ByteView(untouched).subspan(to_at + size));
}

TEST(CopyTest, CopiesExactlyAtEveryDistanceAndSize) {
  for (const std::size_t distance : std::array<std::size_t, 8>{0, 1, 16, 31, 63, 64, 2048, 4080}) {
    for (const std::size_t size :
         std::array<std::size_t, 11>{0, 1, 63, 64, 2047, 2048, 2049, 2111, 2112, 65536, 100001}) {
      SCOPED_TRACE(testing::Message() << distance << " " << size);
      expect_exact(distance, 0, size);
      expect_exact(distance, 33, size);
    }
  }
}

TEST(CopyTest, AnEmptyCopyAcceptsNullPointers) { copy_memory(nullptr, nullptr, 0); }

}  // namespace
}  // namespace spate
