// SPDX-License-Identifier: Apache-2.0
#include "trove/write_set.h"

#include <map>
#include <string>

#include "base/expect.h"
#include "base/random.h"

namespace spate::trove {
namespace {

using Model = std::map<std::string, std::string>;

std::vector<KeyValue> entries_of(const Model& model, const std::string& begin, const std::string& end,
                                 std::size_t limit, bool& more) {
  std::vector<KeyValue> entries;
  more = false;
  for (auto at = model.lower_bound(begin); at != model.end() && at->first < end; ++at) {
    more = entries.size() == limit;
    if (more) break;
    entries.push_back({to_bytes(as_bytes(at->first)), to_bytes(as_bytes(at->second))});
  }
  return entries;
}

TEST(WriteSetTest, FindsTheLastWrite) {
  OwnedWrites own;
  own.writes.put(as_bytes("k"), as_bytes("long value"));
  own.writes.put(as_bytes("k"), as_bytes("short"));
  EXPECT_EQ(as_text(own.writes.find(as_bytes("k"))->value), "short");
  own.writes.put(as_bytes("k"), as_bytes("longer than all before"));
  EXPECT_EQ(as_text(own.writes.find(as_bytes("k"))->value), "longer than all before");
  own.writes.erase(as_bytes("k"));
  EXPECT_TRUE(own.writes.find(as_bytes("k"))->erased);
  own.writes.put(as_bytes("k"), as_bytes(""));
  EXPECT_FALSE(own.writes.find(as_bytes("k"))->erased);
  EXPECT_EQ(own.writes.find(as_bytes("j")), nullptr);
  EXPECT_EQ(own.writes.size(), 1U);
}

TEST(WriteSetTest, AWriteMayRepeatTheStoredValue) {
  OwnedWrites own;
  own.writes.erase(as_bytes("a"));
  own.writes.put(as_bytes("a"), as_bytes("1"));
  const ByteView value = own.writes.find(as_bytes("a"))->value;
  own.writes.put(as_bytes("a"), value);
  EXPECT_EQ(as_text(own.writes.find(as_bytes("a"))->value), "1");
}

TEST(WriteSetTest, OverlayWithoutWritesInTheRangeChangesNothing) {
  OwnedWrites own;
  own.writes.put(as_bytes("z"), as_bytes("1"));
  const Model model{{"a", "1"}, {"b", "2"}};
  bool more = false;
  std::vector<KeyValue> entries = entries_of(model, "a", "c", 10, more);
  own.writes.overlay(as_bytes("a"), as_bytes("c"), more, entries);
  EXPECT_EQ(entries.size(), 2U);
}

TEST(WriteSetTest, WritesBeyondAnUnfinishedReadAreLeftOut) {
  OwnedWrites own;
  own.writes.put(as_bytes("a1"), as_bytes("own"));
  own.writes.put(as_bytes("c"), as_bytes("own"));
  const Model model{{"a", "1"}, {"b", "2"}, {"d", "3"}};
  bool more = false;
  std::vector<KeyValue> entries = entries_of(model, "a", "z", 2, more);
  ASSERT_TRUE(more);
  own.writes.overlay(as_bytes("a"), as_bytes("z"), more, entries);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(as_text(entries.back().key), "b");
}

TEST(WriteSetTest, OverlayEqualsWritingFirst) {
  SeededRandom random(2);
  const auto random_key = [&random] { return "k" + std::to_string(10 + random.below(40)); };
  for (int round = 0; round < 500; ++round) {
    Model model;
    OwnedWrites own;
    for (int i = 0; i < 15; ++i) model[random_key()] = "old";
    Model written = model;
    for (int i = 0; i < 12; ++i) {
      const std::string name = random_key();
      if (random.chance(1, 2)) {
        own.writes.put(as_bytes(name), as_bytes("new"));
        written[name] = "new";
      } else {
        own.writes.erase(as_bytes(name));
        written.erase(name);
      }
    }
    const std::string begin = random_key();
    const std::string end = random_key();
    bool more = false;
    std::vector<KeyValue> entries = entries_of(model, begin, end, 1000, more);
    OwnedWrites copy;
    own.writes.copy_range(as_bytes(begin), as_bytes(end), copy.writes);
    copy.writes.overlay(as_bytes(begin), as_bytes(end), more, entries);
    const std::vector<KeyValue> expected = entries_of(written, begin, end, 1000, more);
    ASSERT_EQ(entries.size(), expected.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      EXPECT_EQ(as_text(entries[i].key), as_text(expected[i].key));
      EXPECT_EQ(as_text(entries[i].value), as_text(expected[i].value));
    }
  }
}

}  // namespace
}  // namespace spate::trove
