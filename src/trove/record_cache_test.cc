// SPDX-License-Identifier: Apache-2.0
#include "trove/record_cache.h"

#include <map>

#include "base/expect.h"
#include "base/random.h"

namespace spate::trove {
namespace {

ByteView view(const std::string& text) { return as_bytes(std::string_view(text)); }

std::string found(RecordCache& cache, const std::string& key) {
  const std::optional<ByteView> value = cache.find(view(key));
  return value ? std::string(reinterpret_cast<const char*>(value->data()), value->size()) : "none";
}

TEST(RecordCacheTest, ReturnsTheValuePutLast) {
  RecordCache cache(10'000);
  cache.put(view("a"), view("1"));
  cache.put(view("a"), view("two"));
  cache.put(view("b"), view(""));
  EXPECT_EQ(found(cache, "a"), "two");
  EXPECT_EQ(found(cache, "b"), "");
  EXPECT_EQ(found(cache, "c"), "none");
  cache.erase(view("a"));
  cache.erase(view("never"));
  EXPECT_EQ(found(cache, "a"), "none");
}

TEST(RecordCacheTest, TheLeastRecentlyUsedGoesFirst) {
  RecordCache cache(2048);
  const std::string value(400, 'v');
  cache.put(view("a"), view(value));
  cache.put(view("b"), view(value));
  cache.put(view("c"), view(value));
  EXPECT_EQ(found(cache, "a"), value);
  cache.put(view("d"), view(value));
  EXPECT_EQ(found(cache, "b"), "none");
  EXPECT_EQ(found(cache, "a"), value);
  EXPECT_EQ(found(cache, "d"), value);
}

TEST(RecordCacheTest, AValueThatHasGrownTooLargeIsDropped) {
  RecordCache cache(100'000);
  cache.put(view("a"), view("small"));
  cache.put(view("a"), view(std::string(RecordCache::kMostRecordBytes, 'x')));
  EXPECT_EQ(found(cache, "a"), "none");
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(RecordCacheTest, ShrinkKeepsTheRecordsUsedLast) {
  RecordCache cache(100'000);
  for (int i = 0; i < 100; ++i) cache.put(view("key" + std::to_string(i)), view(std::string(100, 'v')));
  EXPECT_EQ(found(cache, "key0"), std::string(100, 'v'));
  cache.shrink(2000);
  EXPECT_LE(cache.bytes(), 2000U);
  EXPECT_NE(found(cache, "key0"), "none");
  EXPECT_NE(found(cache, "key99"), "none");
  EXPECT_EQ(found(cache, "key1"), "none");
  cache.put(view("new"), view(std::string(3000, 'v')));  // it may grow again
  EXPECT_NE(found(cache, "key99"), "none");
}

TEST(RecordCacheTest, ACacheOfSizeZeroKeepsNothing) {
  RecordCache cache(0);
  cache.put(view("a"), view("1"));
  EXPECT_EQ(cache.records(), 0U);
}

TEST(RecordCacheTest, IsNeverWrongAndNeverTooLarge) {
  constexpr std::size_t kMost = 20'000;
  RecordCache cache(kMost);
  std::map<std::string, std::string> model;
  SeededRandom random(7);
  std::size_t hits = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "key" + std::to_string(random.below(200));
    const std::string value(random.below(300), static_cast<char>('a' + random.below(26)));
    const auto kind = random.below(3);
    if (kind == 0) {
      cache.put(view(key), view(value));
      model[key] = value;
    } else if (kind == 1 && random.below(4) == 0) {
      cache.erase(view(key));
      model.erase(key);
    } else if (const std::string got = found(cache, key); got != "none") {
      ASSERT_EQ(got, model.at(key));
      ++hits;
    }
    ASSERT_LE(cache.bytes(), kMost);
  }
  EXPECT_GT(hits, 100U);
}

}  // namespace
}  // namespace spate::trove
