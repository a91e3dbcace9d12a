// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/name_filter.h"

#include "base/expect.h"
#include "base/random.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

constexpr Handle kOne{7};
constexpr Handle kTwo{8};

TEST(NameFilter, AnswersOnlyForDirectoriesCreatedByThisProcess) {
  NameFilter names(1024);
  EXPECT_FALSE(names.never_had(kOne, 1));
  names.added(kOne, 1);
  EXPECT_FALSE(names.never_had(kOne, 2));
}

TEST(NameFilter, NeverDeniesANameThatWasAdded) {
  NameFilter names(1U << 16U);
  SeededRandom random(1);
  names.made(kOne);
  std::vector<std::uint64_t> added;
  unsigned unsure = 0;
  for (int i = 0; i < 20'000; ++i) {
    unsure += names.never_had(kOne, random.next()) ? 0 : 1;
    added.push_back(random.next());
    names.added(kOne, added.back());
  }
  for (const std::uint64_t hash : added) ASSERT_FALSE(names.never_had(kOne, hash));
  EXPECT_LT(unsure, 20U);  // it answers most questions
}

TEST(NameFilter, StaysWithinItsRoom) {
  NameFilter names(256);
  SeededRandom random(2);
  names.made(kOne);
  names.made(kTwo);
  for (int i = 0; i < 150; ++i) {
    names.added(kTwo, random.next());
    ASSERT_LE(names.slots(), 256U);
  }
  EXPECT_FALSE(names.never_had(kOne, 1)) << "the older directory was not dropped for the newer one";
  EXPECT_TRUE(names.never_had(kTwo, random.next()));
  for (int i = 0; i < 150; ++i) names.added(kTwo, random.next());
  EXPECT_FALSE(names.never_had(kTwo, random.next())) << "it still answers for a directory with too many names";
  EXPECT_EQ(names.slots(), 0U);
  for (std::uint64_t i = 0; i < 1000; ++i) names.made(Handle(100 + i));
  EXPECT_LE(names.slots(), 256U);
}

/// How many reads of the store creating "d/name" takes.
std::size_t reads_of_create(TestFs& fs, User& user, std::string name) {
  const std::size_t before = fs.store.gets;
  EXPECT_OK(user.create("d/" + std::move(name)));
  return fs.store.gets - before;
}

TEST(NameFilter, ANewNameInANewDirectoryIsNotLookedForInTheStore) {
  TestFs fs;
  User user(fs, alice());
  ASSERT_OK(user.mkdir("d"));
  const std::size_t known = reads_of_create(fs, user, "a");
  EXPECT_ERRC(user.create("d/a"), Errc::kExists);
  ASSERT_OK(user.unlink("d/a"));
  EXPECT_EQ(reads_of_create(fs, user, "a"), known + 1);  // the name was in use before
  fs.close();
  fs.open(test_options());
  EXPECT_EQ(reads_of_create(fs, user, "b"), known + 1);  // another process made the directory
  EXPECT_ERRC(user.create("d/a"), Errc::kExists);
}

}  // namespace
}  // namespace spate::meta
