// SPDX-License-Identifier: Apache-2.0
#include "group/recent_entries.h"

#include "base/expect.h"

namespace spate::group {
namespace {

EntryRef entry_of(std::size_t bytes) { return std::make_shared<const Bytes>(Bytes(bytes)); }

TEST(RecentEntries, FindsEntriesByTheirIndex) {
  RecentEntries recent({1, 10});
  recent.add({2, 11}, entry_of(1));
  recent.add({2, 12}, entry_of(2));
  ASSERT_NE(recent.find(12), nullptr);
  EXPECT_EQ(recent.find(12)->entry->size(), 2U);
  EXPECT_EQ(recent.find(13), nullptr);
  EXPECT_EQ(recent.before(), (trove::LogPosition{1, 10}));
}

TEST(RecentEntries, LimitsTheNumberOfEntries) {
  RecentEntries recent({1, 10}, {2, 1000});
  for (std::uint64_t index = 11; index <= 14; ++index) recent.add({2, index}, entry_of(1));
  EXPECT_EQ(recent.before(), (trove::LogPosition{2, 12}));
  EXPECT_EQ(recent.find(14)->at.index, 14U);
}

TEST(RecentEntries, LimitsTheBytesOfEntries) {
  RecentEntries recent({1, 10}, {100, 1000});
  for (std::uint64_t index = 11; index <= 14; ++index) recent.add({2, index}, entry_of(400));
  EXPECT_EQ(recent.before(), (trove::LogPosition{2, 12}));
}

TEST(RecentEntries, KeepsTheNewestHoweverLongItIs) {
  RecentEntries recent({1, 10}, {100, 1000});
  recent.add({2, 11}, entry_of(4000));
  EXPECT_NE(recent.find(11), nullptr);
  recent.add({2, 12}, entry_of(5000));
  EXPECT_EQ(recent.before(), (trove::LogPosition{2, 11}));
}

}  // namespace
}  // namespace spate::group
