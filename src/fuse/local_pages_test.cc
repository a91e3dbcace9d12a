// SPDX-License-Identifier: Apache-2.0
#include "fuse/local_pages.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/expect.h"
#include "client/attributes/local_answers.h"

namespace spate::fuse {
namespace {

constexpr std::size_t kEntries = 1000;
constexpr std::size_t kServerPage = 30;

/// A directory, by the server's cookies 1, 2, 3 ...
class LocalPagesTest : public ::testing::Test {
 protected:
  Result<wire::ReaddirReply> server_page(std::uint64_t cookie) {
    ++asked_;
    wire::ReaddirReply page;
    page.parent = Handle(3);
    for (std::uint64_t i = cookie + 1; i <= std::min(cookie + kServerPage, std::uint64_t{kEntries}); ++i)
      page.entries.push_back({"entry " + std::to_string(i), Handle(i), FileType::kRegular, i, {}, {}});
    page.end = cookie + kServerPage >= kEntries;
    return page;
  }
  Result<wire::ReaddirReply> page_after(std::uint64_t cookie, std::size_t most) {
    return page_after_local([this](std::uint64_t place) { return server_page(place); }, cookie, most);
  }

  int asked_ = 0;
};

TEST_F(LocalPagesTest, EachPageIsBoundedAndAllHaveEachEntryOnce) {
  constexpr std::size_t kMost = 64;
  std::set<std::string> names;
  std::uint64_t cookie = 0;
  for (bool end = false; !end;) {
    const auto page = page_after(cookie, kMost);
    ASSERT_OK(page);
    EXPECT_LE(page->entries.size(), kMost);
    EXPECT_LE(page->entries.capacity(), 8 * kMost) << "it has kept the whole directory";
    EXPECT_EQ(page->parent, Handle(3));
    for (const wire::DirectoryEntry& entry : page->entries) {
      EXPECT_GT(entry.cookie, cookie);
      EXPECT_EQ(entry.cookie, client::local_cookie(entry.name));
      cookie = entry.cookie;
      EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    }
    end = page->end;
  }
  EXPECT_EQ(names.size(), kEntries);
}

TEST_F(LocalPagesTest, ASmallDirectoryIsOnePage) {
  const auto page = page_after(0, 2 * kEntries);
  ASSERT_OK(page);
  EXPECT_TRUE(page->end) << "nothing is behind the page";
  EXPECT_EQ(page->entries.size(), kEntries);
}

TEST_F(LocalPagesTest, BehindTheLastEntryIsNothing) {
  const auto page = page_after(client::kLocalCookies, 10);
  ASSERT_OK(page);
  EXPECT_TRUE(page->end) << "nothing is behind the last entry";
  EXPECT_TRUE(page->entries.empty()) << "nothing is behind the last entry";
  EXPECT_EQ(asked_, static_cast<int>((kEntries + kServerPage - 1) / kServerPage));
}

TEST_F(LocalPagesTest, AnErrorOfTheServerIsTold) {
  const auto page = page_after_local([](std::uint64_t) { return Error(Errc::kStaleHandle, "removed"); }, 0, 10);
  EXPECT_ERRC(page, Errc::kStaleHandle);
}

}  // namespace
}  // namespace spate::fuse
