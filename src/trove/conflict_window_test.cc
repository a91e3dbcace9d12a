// SPDX-License-Identifier: Apache-2.0
#include "trove/conflict_window.h"

#include <map>
#include <string>

#include "base/expect.h"
#include "base/random.h"

namespace spate::trove {
namespace {

ByteView key(std::string_view text) { return as_bytes(text); }

TEST(ConflictWindowTest, KeyChangesAfterItsVersionOnly) {
  ConflictWindow window(1 << 20);
  window.record(5, key("k"));
  EXPECT_TRUE(window.key_changed(key("k"), 4));
  EXPECT_FALSE(window.key_changed(key("k"), 5));
  EXPECT_FALSE(window.key_changed(key("l"), 0));
  window.record(7, key("k"));
  EXPECT_TRUE(window.key_changed(key("k"), 6));
}

TEST(ConflictWindowTest, RangeIsHalfOpen) {
  ConflictWindow window(1 << 20);
  window.record(1, key("b"));
  EXPECT_TRUE(window.range_changed(key("b"), key("c"), 0));
  EXPECT_FALSE(window.range_changed(key("a"), key("b"), 0));
  EXPECT_FALSE(window.range_changed(key("ba"), key("c"), 0));
  EXPECT_FALSE(window.range_changed(key("c"), key("a"), 0));
  EXPECT_FALSE(window.range_changed(key("a"), key("c"), 1));
}

TEST(ConflictWindowTest, ForgottenVersionsConflict) {
  ConflictWindow window(1 << 20);
  window.record(1, key("a"));
  window.record(2, key("b"));
  window.record(3, key("a"));
  window.forget_up_to(2);
  EXPECT_EQ(window.start(), 2U);
  EXPECT_EQ(window.keys(), 1U);
  EXPECT_TRUE(window.key_changed(key("untouched"), 1));
  EXPECT_TRUE(window.range_changed(key("x"), key("y"), 1));
  EXPECT_FALSE(window.key_changed(key("b"), 2));
  EXPECT_TRUE(window.key_changed(key("a"), 2));
  window.forget_up_to(3);
  EXPECT_EQ(window.keys(), 0U);
  EXPECT_EQ(window.bytes(), 0U);
}

TEST(ConflictWindowTest, MemoryIsBoundedAndTheOldestGoFirst) {
  static constexpr std::size_t kBytes = 64 << 10;
  ConflictWindow window(kBytes);
  for (Version version = 1; version <= 10'000; ++version) {
    window.record(version, key("key" + std::to_string(version)));
    ASSERT_LE(window.bytes(), kBytes);
  }
  EXPECT_GT(window.start(), 9'000U);
  EXPECT_LT(window.start(), 9'900U);
  EXPECT_TRUE(window.key_changed(key("key9999"), 9'998));
  EXPECT_FALSE(window.key_changed(key("key9000"), 9'999));
}

TEST(ConflictWindowTest, CommitLargerThanTheWindowIsForgottenWhole) {
  ConflictWindow window(1000);
  for (int i = 0; i < 100; ++i) window.record(1, key("key" + std::to_string(i)));
  EXPECT_EQ(window.start(), 1U);
  EXPECT_TRUE(window.key_changed(key("key0"), 0));
  EXPECT_FALSE(window.key_changed(key("key99"), 1));
}

/// Compares the window with a full history: the window never misses a change, and reports a false one only before
/// start().
TEST(ConflictWindowTest, AgreesWithAFullHistory) {
  SeededRandom random(1);
  ConflictWindow window(4096);
  std::map<std::string, Version> last;
  const auto random_key = [&random] { return "k" + std::to_string(random.below(60)); };
  for (Version version = 1; version < 5000; ++version) {
    const std::string written = random_key();
    window.record(version, key(written));
    last[written] = version;
    if (random.chance(1, 50)) window.forget_up_to(version - random.below(20));
    const Version since = version - random.below(std::min<Version>(version, 40));
    const std::string begin = random_key();
    const std::string end = random_key();
    bool changed = false;
    for (auto at = last.lower_bound(begin); at != last.end() && at->first < end; ++at) changed |= at->second > since;
    const bool key_changed = last.contains(begin) && last[begin] > since;
    if (since < window.start()) {
      EXPECT_TRUE(window.range_changed(key(begin), key(end), since));
      EXPECT_TRUE(window.key_changed(key(begin), since));
    } else {
      ASSERT_EQ(window.range_changed(key(begin), key(end), since), changed);
      ASSERT_EQ(window.key_changed(key(begin), since), key_changed);
    }
  }
}

}  // namespace
}  // namespace spate::trove
