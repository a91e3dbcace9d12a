// SPDX-License-Identifier: Apache-2.0
#include "trove/device_extents.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/unique_fd.h"

namespace spate::trove {
namespace {

constexpr std::uint64_t kPage = 4096;

std::vector<std::uint64_t> cuts(int fd, std::uint64_t size) {
  DeviceExtents extents;
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t at = 0; at < size; at += sizes.back()) sizes.push_back(extents.left_in(fd, at, size - at));
  return sizes;
}

TEST(DeviceExtents, AFileInPiecesIsCutAtTheirEndsAndAllOfItIsCovered) {
  const UniqueFd fd(::open(".", O_TMPFILE | O_RDWR, 0600));
  if (!fd) GTEST_SKIP() << "the build folder's file system has no unnamed files";
  const UniqueFd other(::open(".", O_TMPFILE | O_RDWR, 0600));
  const Bytes page(16 * kPage, std::byte{7});
  // Two files that grow in turn, each step on the disk: neither can lie in one piece.
  for (int i = 0; i < 8; ++i) {
    for (const int one : {fd.get(), other.get()}) {
      ASSERT_EQ(::pwrite(one, page.data(), page.size(), static_cast<off_t>(page.size()) * i),
                static_cast<ssize_t>(page.size()));
      ASSERT_EQ(::fsync(one), 0);
    }
  }
  const std::uint64_t size = 8 * page.size();
  std::uint64_t total = 0;
  for (const std::uint64_t one : cuts(fd.get(), size)) {
    EXPECT_EQ(one % kPage, 0U);
    EXPECT_GT(one, 0U);
    total += one;
  }
  EXPECT_EQ(total, size);
  // How the file system lays it out is its own business: where it tells of one piece there is one request.
  const UniqueFd empty(::open(".", O_TMPFILE | O_RDWR, 0600));
  EXPECT_EQ(cuts(empty.get(), 16 * kPage).size(), 1U);
}

TEST(DeviceExtents, LargeRequestsAreCutWhateverLiesBelow) {
  EXPECT_EQ(cuts(-1, 4 * DeviceExtents::kMaxRequestBytes).size(), 4U);
  EXPECT_EQ(cuts(-1, kPage).size(), 1U);
}

}  // namespace
}  // namespace spate::trove
