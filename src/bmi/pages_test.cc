// SPDX-License-Identifier: Apache-2.0
#include "bmi/pages.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "base/expect.h"
#include "base/expect_bytes.h"

namespace spate::bmi {
namespace {

std::uintptr_t address(const Pages& pages) { return reinterpret_cast<std::uintptr_t>(pages.memory().data()); }

/// The flags of the mapping that begins at `at`, from /proc/self/smaps.
std::string flags_of(std::uintptr_t at) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool found = false;
  while (std::getline(maps, line)) {
    if (const auto dash = line.find('-'); dash != std::string::npos && dash < 17 && line.find(':') > dash) {
      const auto begin = std::stoull(line.substr(0, dash), nullptr, 16);
      const auto end = std::stoull(line.substr(dash + 1), nullptr, 16);
      found = begin <= at && at < end;
    }
    if (found && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

TEST(PagesTest, LargeMemoryIsAlignedAndMayBecomeHugePages) {
  const Pages pages = Pages::map(3 * Pages::kHuge - 5);
  ASSERT_EQ(pages.memory().size(), 3 * Pages::kHuge);
  EXPECT_EQ(address(pages) % Pages::kHuge, 0U);
  // "ht": pages that the administrator has set aside; "hg": the kernel may use transparent huge pages.
  EXPECT_THAT(flags_of(address(pages)), testing::AnyOf(testing::HasSubstr(" ht"), testing::HasSubstr(" hg")));
}

TEST(PagesTest, SmallMemoryTakesNoMoreThanItsPages) {
  const Pages pages = Pages::map(5000);
  EXPECT_EQ(pages.memory().size(), 8192U);
  EXPECT_THAT(flags_of(address(pages)), testing::Not(testing::HasSubstr(" ht")));
}

TEST(PagesTest, IsZeroAndWritable) {
  for (const std::size_t size : {std::size_t{1}, Pages::kHuge, Pages::kHuge + 1}) {
    const Pages pages = Pages::map(size);
    const MutableByteView memory = pages.memory();
    ASSERT_GE(memory.size(), size);
    EXPECT_BYTES(memory, Bytes(memory.size()));
    std::fill(memory.begin(), memory.end(), std::byte{1});
  }
}

TEST(PagesTest, PagesThatCannotBeMappedAreEmpty) {
  EXPECT_THAT(Pages::map(std::size_t{1} << 60U).memory(), testing::IsEmpty());
  EXPECT_THAT(Pages::map(std::numeric_limits<std::size_t>::max()).memory(), testing::IsEmpty());
}

TEST(PagesTest, MovedPagesAreUnmappedOnce) {
  Pages pages = Pages::map(Pages::kHuge);
  const std::uintptr_t at = address(pages);
  Pages other = std::move(pages);
  EXPECT_THAT(flags_of(at), testing::Not(testing::IsEmpty()));
  other = Pages();
  Pages third;
  std::swap(third, other);
  EXPECT_THAT(third.memory(), testing::IsEmpty());
}

}  // namespace
}  // namespace spate::bmi
