// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/change_log.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "trove/kvfault/fault_keyval.h"
#include "trove/kvmem/memory_keyval.h"

namespace spate::io {
namespace {

constexpr TargetId kNotedGroup{0x01000001};
constexpr DatafileId kFirst{Handle(7), 0};
constexpr DatafileId kSecond{Handle(7), 1};
constexpr std::uint64_t kMiB = ChangedRegion::kBytes;

class ChangeLogTest : public ::testing::Test {
 protected:
  void note(ChangeLog& log, DatafileId datafile, std::uint64_t offset, std::uint64_t size, std::uint64_t window = 1) {
    const Extent extent{offset, size};
    ASSERT_OK(executor_.run(log.note(datafile, {&extent, 1}, window)));
  }
  std::vector<ChangedRegion> all(const ChangeLog& log) { return log.page(std::nullopt, 1000); }
  /// The notes as another process finds them.
  std::vector<ChangedRegion> stored() {
    ChangeLog log(context_, kNotedGroup);
    EXPECT_OK(executor_.run(log.load()));
    return all(log);
  }

  SystemClock clock_;
  job::Executor executor_{clock_};
  std::unique_ptr<trove::Keyval> keyval_ = trove::make_memory_keyval();
  job::KeyvalContext context_{*keyval_, executor_};
  ChangeLog log_{context_, kNotedGroup};
};

TEST_F(ChangeLogTest, NotesTheRegionsOfAChangeAndAnotherProcessFindsThem) {
  note(log_, kFirst, kMiB - 1, 2);
  note(log_, kFirst, 10, 5);
  note(log_, kSecond, 5 * kMiB, 1);
  const std::vector<ChangedRegion> expected{{kFirst, false, 0}, {kFirst, false, 1}, {kSecond, false, 5}};
  EXPECT_EQ(all(log_), expected);
  EXPECT_EQ(stored(), expected);
}

TEST_F(ChangeLogTest, AnEmptyChangeIsNotNoted) {
  note(log_, kFirst, 77, 0);
  EXPECT_THAT(all(log_), ::testing::IsEmpty());
  EXPECT_THAT(log_.datafiles(9), ::testing::IsEmpty());
}

TEST_F(ChangeLogTest, ATruncationAndAHugeChangeAreNotedUpToTheEnd) {
  ASSERT_OK(executor_.run(log_.note_from(kFirst, 3 * kMiB + 1, 1)));
  note(log_, kSecond, kMiB, 5000 * kMiB);
  EXPECT_EQ(stored(), (std::vector<ChangedRegion>{{kFirst, true, 3}, {kSecond, true, 1}}));
}

TEST_F(ChangeLogTest, ForgettingAWindowKeepsLaterChanges) {
  note(log_, kFirst, 0, 2 * kMiB, 1);
  note(log_, kFirst, 0, 1, 2);
  note(log_, kSecond, 0, 1, 3);
  EXPECT_EQ(log_.datafiles(2), std::vector<DatafileId>{kFirst});
  ASSERT_OK(executor_.run(log_.forget(1)));
  EXPECT_EQ(stored(), (std::vector<ChangedRegion>{{kFirst, false, 0}, {kSecond, false, 0}}));
  ASSERT_OK(executor_.run(log_.forget(2)));
  EXPECT_EQ(stored(), (std::vector<ChangedRegion>{{kSecond, false, 0}}));
  EXPECT_EQ(log_.size(), 1U);
}

TEST_F(ChangeLogTest, PagesContinueBehindTheLastOne) {
  note(log_, kFirst, 0, 3 * kMiB);
  note(log_, kSecond, 0, 1);
  const std::vector<ChangedRegion> first = log_.page(std::nullopt, 2);
  const std::vector<ChangedRegion> second = log_.page(first.back(), 2);
  EXPECT_EQ(first, (std::vector<ChangedRegion>{{kFirst, false, 0}, {kFirst, false, 1}}));
  EXPECT_EQ(second, (std::vector<ChangedRegion>{{kFirst, false, 2}, {kSecond, false, 0}}));
  EXPECT_THAT(log_.page(second.back(), 2), ::testing::IsEmpty());
}

TEST_F(ChangeLogTest, TooManyNotesOfADatafileAreMergedIntoOne) {
  ChangeLog small(context_, kNotedGroup, 4);
  note(small, kSecond, 0, 1);
  for (std::uint64_t r = 0; r < 5; ++r) note(small, kFirst, r * kMiB, 1);
  EXPECT_LE(small.size(), 4U);
  const std::vector<ChangedRegion> found = stored();
  EXPECT_THAT(found, ::testing::Contains(ChangedRegion{kFirst, true, 0}));
  EXPECT_THAT(found, ::testing::Contains(ChangedRegion{kSecond, false, 0}));
  EXPECT_EQ(found, all(small));
}

TEST_F(ChangeLogTest, ListsTheDatafilesThatWereNotRemoved) {
  note(log_, kFirst, 0, 1);
  note(log_, kSecond, 0, 1);
  ASSERT_OK(executor_.run(log_.forget(1)));
  ASSERT_OK(executor_.run(log_.unlist(kFirst)));
  const auto found = executor_.run(log_.list({}, 10));
  ASSERT_OK(found);
  EXPECT_EQ(*found, std::vector<DatafileId>{kSecond});
}

TEST_F(ChangeLogTest, ListsADatafileAlsoWhenItsFirstNoteCouldNotBeStored) {
  trove::FaultKeyval failing(*keyval_, clock_);
  job::KeyvalContext context(failing, executor_);
  ChangeLog log(context, kNotedGroup);
  failing.order({trove::FaultPoint::kCommit, 1, Errc::kNoSpace});
  const Extent extent{0, 1};
  ASSERT_EQ(executor_.run(log.note(kFirst, {&extent, 1}, 1)).code(), Errc::kNoSpace);
  note(log, kFirst, 5 * kMiB, 1);
  note(log, kFirst, 0, 1);
  const auto found = executor_.run(log.list({}, 10));
  ASSERT_OK(found);
  EXPECT_EQ(*found, std::vector<DatafileId>{kFirst});
  EXPECT_EQ(stored(), (std::vector<ChangedRegion>{{kFirst, false, 0}, {kFirst, false, 5}}));
}

}  // namespace
}  // namespace spate::io
