// SPDX-License-Identifier: Apache-2.0
#include "trove/device_extents.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <array>
#include <cstddef>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "base/expect.h"
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

/// The offsets at which the file continues elsewhere on the device, as the file system reports them; nothing if it does
/// not report.
std::optional<std::set<std::uint64_t>> breaks(int fd, std::uint64_t size) {
  constexpr unsigned kMost = 32;
  alignas(fiemap) std::array<std::byte, sizeof(fiemap) + kMost * sizeof(fiemap_extent)> raw{};
  auto* const map = reinterpret_cast<fiemap*>(raw.data());
  map->fm_length = size;
  map->fm_extent_count = kMost;
  if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0) return std::nullopt;
  const auto* const extents = reinterpret_cast<const fiemap_extent*>(raw.data() + offsetof(fiemap, fm_extents));
  std::set<std::uint64_t> found;
  for (unsigned i = 1; i < map->fm_mapped_extents; ++i) {
    if (extents[i].fe_physical != extents[i - 1].fe_physical + extents[i - 1].fe_length)
      found.insert(extents[i].fe_logical);
  }
  return found;
}

TEST(DeviceExtents, AFileInPiecesIsCutAtTheirEndsAndAllOfItIsCovered) {
  const UniqueFd fd(::open(".", O_TMPFILE | O_RDWR, 0600));
  if (!fd) GTEST_SKIP() << "the build folder's file system has no unnamed files";
  const UniqueFd other(::open(".", O_TMPFILE | O_RDWR, 0600));
  const Bytes page(16 * kPage, std::byte{7});
  // Two files grow in turns, with a sync after each step, so that neither can lie in one piece.
  for (int i = 0; i < 8; ++i) {
    for (const int one : {fd.get(), other.get()}) {
      ASSERT_EQ(::pwrite(one, page.data(), page.size(), static_cast<off_t>(page.size()) * i),
                static_cast<ssize_t>(page.size()));
      ASSERT_EQ(::fsync(one), 0);
    }
  }
  const std::uint64_t size = 8 * page.size();
  std::uint64_t total = 0;
  std::set<std::uint64_t> cut_at;
  for (const std::uint64_t one : cuts(fd.get(), size)) {
    EXPECT_EQ(one % kPage, 0U);
    EXPECT_GT(one, 0U);
    total += one;
    if (total < size) cut_at.insert(total);
  }
  EXPECT_EQ(total, size);
  // The layout is the file system's choice. The test expects one request for each piece that it reports.
  EXPECT_EQ(cut_at, breaks(fd.get(), size).value_or(std::set<std::uint64_t>()));
  const UniqueFd empty(::open(".", O_TMPFILE | O_RDWR, 0600));
  EXPECT_EQ(cuts(empty.get(), 16 * kPage).size(), 1U);
}

TEST(DeviceExtents, LargeRequestsAreCutEvenIfTheExtentsAreUnknown) {
  EXPECT_EQ(cuts(-1, 4 * DeviceExtents::kMaxRequestBytes).size(), 4U);
  EXPECT_EQ(cuts(-1, kPage).size(), 1U);
}

}  // namespace
}  // namespace spate::trove
