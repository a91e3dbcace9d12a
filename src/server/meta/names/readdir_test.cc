// SPDX-License-Identifier: Apache-2.0
// Listings are complete and free of repeats, whatever the room, the hash collisions, and the changes between two pages.
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <set>

#include "base/expect.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

TestFsOptions colliding(std::uint8_t bits) {
  TestFsOptions options;
  options.meta.name_hash_bits = bits;
  return options;
}

/// All names, and how often each was listed. A page has as much room as the test has posted.
std::map<std::string, int> list(User& user, Handle directory, bool attributes = false) {
  std::map<std::string, int> names;
  std::uint64_t cookie = 0;
  for (int pages = 0; pages < 10000; ++pages) {
    const auto page = user.readdir(directory, cookie, attributes);
    EXPECT_OK(page);
    if (!page) return names;
    for (const wire::DirectoryEntry& entry : page->entries) ++names[entry.name];
    if (page->end) return names;
    EXPECT_THAT(page->entries, testing::Not(testing::IsEmpty()));
    if (page->entries.empty()) return names;
    cookie = page->entries.back().cookie;
  }
  ADD_FAILURE() << "the listing does not end";
  return names;
}

void fill(User& user, const std::string& directory, int count) {
  for (int i = 0; i < count; ++i) ASSERT_OK(user.create(directory + "/file" + std::to_string(i)));
}

void expect_once_each(const std::map<std::string, int>& names, std::size_t count) {
  EXPECT_EQ(names.size(), count);
  for (const auto& [name, times] : names) EXPECT_EQ(times, 1) << name;
}

TEST(MetaReaddir, AnEmptyDirectoryEndsAtOnce) {
  TestFs fs;
  User user(fs, alice());
  const auto page = user.readdir(user.mkdir("d")->attributes.handle);
  ASSERT_OK(page);
  EXPECT_THAT(page->entries, testing::IsEmpty());
  EXPECT_TRUE(page->end) << page->entries.size() << " entries";
  EXPECT_EQ(page->parent, kRootHandle);
}

TEST(MetaReaddir, EveryPageFitsTheRoomPosted) {
  TestFs fs;
  User user(fs, alice());
  const Handle directory = user.mkdir("d")->attributes.handle;
  fill(user, "d", 300);
  for (const std::uint32_t room : {400U, 1000U, 5000U, 1U << 20U}) {
    fs.reply_room = room;
    for (const bool attributes : {false, true}) {
      expect_once_each(list(user, directory, attributes), 300);
      const auto page = user.readdir(directory, 0, attributes);
      Bytes bytes;
      wire::encode_body(*page, bytes);
      wire::encode_body(wire::ReplyHeader{}, bytes);
      EXPECT_LE(bytes.size(), room);
    }
  }
}

TEST(MetaReaddir, InodesOfALargeDirectoryLieInTheOrderOfItsListing) {
  constexpr int kSmall = 4096;
  TestFs fs;
  User user(fs, alice());
  const Handle directory = user.mkdir("d")->attributes.handle;
  fill(user, "d", kSmall + 1000);
  std::set<std::uint64_t> numbers;
  std::set<std::uint64_t> places;
  std::uint64_t last = 0;
  std::uint64_t cookie = 0;
  for (bool end = false; !end;) {
    const auto page = user.readdir(directory, cookie);
    ASSERT_OK(page);
    for (const wire::DirectoryEntry& entry : page->entries) {
      const std::uint64_t place = entry.handle.value >> kPlaceShift;
      numbers.insert(number_of(entry.handle));
      places.insert(place);
      if (std::stoi(entry.name.substr(4)) < kSmall) {
        EXPECT_EQ(place, 0U) << entry.name << ": in order of creation while the directory was small";
      } else {
        EXPECT_GE(place, last) << entry.name;
        last = place;
      }
      cookie = entry.cookie;
    }
    end = page->end;
  }
  EXPECT_EQ(numbers.size(), std::size_t{kSmall} + 1000) << "no number is given twice";
  EXPECT_GT(places.size(), 100U) << "spread over 2^7 places";
}

TEST(MetaReaddir, PagesAreFilled) {
  TestFs fs;
  User user(fs, alice());
  const Handle directory = user.mkdir("d")->attributes.handle;
  fill(user, "d", 3000);
  fs.reply_room = 64 * 1024;
  EXPECT_GT(user.readdir(directory)->entries.size(), 1500U);
  fs.reply_room = 1U << 20U;
  EXPECT_TRUE(user.readdir(directory)->end) << "one reply does not hold what several batches have read";
}

TEST(MetaReaddir, EntriesOfOneHashComeTogether) {
  for (const std::uint8_t bits : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{4}}) {
    TestFs fs(colliding(bits));
    User user(fs, alice());
    const Handle directory = user.mkdir("d")->attributes.handle;
    fill(user, "d", 100);
    fs.reply_room = bits == 1 ? 1U << 20U : 64 * 1024;
    std::uint64_t cookie = 0;
    std::set<std::uint64_t> seen;
    std::size_t count = 0;
    for (bool end = false; !end;) {
      wire::ReaddirRequest request;
      request.handle = directory;
      request.cookie = cookie;
      request.max_entries = 5;
      const auto page = user.ask<wire::ReaddirReply>(request);
      ASSERT_OK(page);
      std::set<std::uint64_t> here;
      for (const wire::DirectoryEntry& entry : page->entries) here.insert(entry.cookie);
      for (const std::uint64_t hash : here) EXPECT_TRUE(seen.insert(hash).second) << "a group was torn";
      count += page->entries.size();
      cookie = page->entries.back().cookie;
      end = page->end;
    }
    EXPECT_EQ(count, 100U);
  }
}

TEST(MetaReaddir, AGroupLargerThanTheRoomIsAnErrorNotALoop) {
  TestFs fs(colliding(1));
  User user(fs, alice());
  const Handle directory = user.mkdir("d")->attributes.handle;
  fill(user, "d", 100);
  fs.reply_room = 1000;
  EXPECT_ERRC(user.readdir(directory), Errc::kMessageTooBig);
}

TEST(MetaReaddir, CollidingNamesAreDifferentFiles) {
  TestFs fs(colliding(1));
  User user(fs, alice());
  ASSERT_OK(user.create("a"));
  ASSERT_OK(user.create("b"));
  EXPECT_NE(user.stat("a")->attributes.handle, user.stat("b")->attributes.handle);
  ASSERT_OK(user.unlink("a"));
  EXPECT_OK(user.stat("b"));
}

TEST(MetaReaddir, MaxEntriesIsKept) {
  TestFs fs;
  User user(fs, alice());
  const Handle directory = user.mkdir("d")->attributes.handle;
  fill(user, "d", 10);
  wire::ReaddirRequest request;
  request.handle = directory;
  request.max_entries = 3;
  const auto page = user.ask<wire::ReaddirReply>(request);
  EXPECT_EQ(page->entries.size(), 3U);
  EXPECT_FALSE(page->end) << page->entries.size() << " entries";
}

TEST(MetaReaddir, AttributesComeWithTheNames) {
  TestFs fs;
  User user(fs, alice());
  const Handle directory = user.mkdir("d")->attributes.handle;
  ASSERT_OK(user.create("d/closed", 0600));
  ASSERT_OK(user.create("d/written", 0600, wire::kOpenWrite));
  ASSERT_OK(user.link("d/closed", "d/again"));
  const auto page = user.readdir(directory, 0, true);
  ASSERT_EQ(page->entries.size(), 3U);
  for (const wire::DirectoryEntry& entry : page->entries) {
    ASSERT_NE(entry.attributes, std::nullopt);
    EXPECT_EQ(*entry.attributes, user.stat("d/" + entry.name)->attributes);
    EXPECT_EQ(entry.layout.has_value(), entry.name == "written");
  }
  ASSERT_OK(user.chmod("d", 0400));  // listable, not searchable
  EXPECT_EQ(user.readdir(directory, 0, true)->entries[0].attributes, std::nullopt);
}

TEST(MetaReaddir, NamesThatStayAreListedOnceWhileOthersComeAndGo) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TestFsOptions options = colliding(static_cast<std::uint8_t>(seed % 2 == 0 ? 63 : 5));
    options.seed = seed;
    TestFs fs(options);
    User user(fs, alice());
    const Handle directory = user.mkdir("d")->attributes.handle;
    fill(user, "d", 120);
    SeededRandom random(seed);
    std::map<std::string, int> seen;
    std::uint64_t cookie = 0;
    for (bool end = false; !end;) {
      wire::ReaddirRequest request;
      request.handle = directory;
      request.cookie = cookie;
      request.max_entries = 7;
      const auto page = user.ask<wire::ReaddirReply>(request);
      ASSERT_OK(page);
      for (const wire::DirectoryEntry& entry : page->entries) ++seen[entry.name];
      end = page->end;
      if (!page->entries.empty()) cookie = page->entries.back().cookie;
      // file0..file59 stay; the others are removed, and new ones are created.
      const std::string victim = "d/file" + std::to_string(60 + random.below(60));
      if (random.chance(1, 2)) (void)user.unlink(victim);
      if (random.chance(1, 2)) (void)user.create("d/new" + std::to_string(random.below(100)));
    }
    for (int i = 0; i < 60; ++i) EXPECT_EQ(seen["file" + std::to_string(i)], 1) << "seed " << seed << " file" << i;
    for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << "seed " << seed << " " << name;
  }
}

}  // namespace
}  // namespace spate::meta
