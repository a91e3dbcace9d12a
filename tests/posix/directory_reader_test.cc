// SPDX-License-Identifier: Apache-2.0
// The reader of a directory, with a directory of several pages.
#include "posix/directory_reader.h"

#include <map>
#include <set>
#include <string>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::posix_test {
namespace {

using client::path_from_root;
using posix::DirectoryItem;

constexpr int kFiles = 2500;  // more than one page, however many entries a server puts on one

class DirectoryReaderTest : public testing::Test {
 protected:
  DirectoryReaderTest() {
    const auto made = run(client().mkdir(path_from_root("d"), {}));
    EXPECT_OK(made);
    if (made) directory_ = made->handle;
  }

  client::Client& client() { return process_.client(); }
  template <typename T>
  T run(job::Task<T> task) {
    return cluster::call(world_, process_, std::move(task));
  }
  void make(const std::string& name) { ASSERT_OK(run(client().mkdir(path_from_root("d/" + name), {}))); }
  void make_many() {
    for (int i = 0; i < kFiles; ++i) make("entry number " + std::to_string(i));
  }
  posix::DirectoryReader reader() { return {client(), directory_}; }
  /// The entry at the position; an item without a name: the directory ends there.
  DirectoryItem next(posix::DirectoryReader& reader, std::uint64_t position, bool with_attributes = false) {
    const auto item = run(reader.next(position, with_attributes));
    EXPECT_OK(item);
    return item && *item ? **item : DirectoryItem();
  }

  cluster::World world_{{}};
  cluster::ClientProcess& process_ = world_.start_client();
  Handle directory_;
};

TEST_F(DirectoryReaderTest, EachEntryOfManyPagesComesOnce) {
  make_many();
  posix::DirectoryReader reader = this->reader();
  std::multiset<std::string> names;
  std::uint64_t position = 0;
  for (DirectoryItem item = next(reader, position); !item.name.empty(); item = next(reader, position)) {
    position = item.next;
    names.insert(item.name);
  }
  EXPECT_EQ(names.size(), kFiles + 2U);
  for (int i = 0; i < kFiles; ++i) {
    ASSERT_EQ(names.count("entry number " + std::to_string(i)), 1U) << i;
  }
}

TEST_F(DirectoryReaderTest, ItBeginsWithTheDirectoryAndItsParent) {
  posix::DirectoryReader reader = this->reader();
  const DirectoryItem dot = next(reader, 0);
  EXPECT_EQ(dot.name, ".");
  EXPECT_EQ(dot.handle, directory_);
  const DirectoryItem parent = next(reader, dot.next);
  EXPECT_EQ(parent.name, "..");
  EXPECT_EQ(parent.handle, kRootHandle);
  EXPECT_EQ(next(reader, parent.next).name, "") << "the directory is empty";
}

TEST_F(DirectoryReaderTest, AnotherReaderContinuesAtAPosition) {
  make_many();
  posix::DirectoryReader first = reader();
  std::uint64_t position = 0;
  for (int i = 0; i < 40; ++i) position = next(first, position).next;
  posix::DirectoryReader second = reader();
  for (int i = 0; i < 40; ++i) {
    const DirectoryItem item = next(first, position);
    const DirectoryItem other = next(second, position);
    ASSERT_EQ(item.name, other.name) << i;
    EXPECT_EQ(item.handle, other.handle);
    EXPECT_EQ(item.next, other.next);
    position = item.next;
  }
}

TEST_F(DirectoryReaderTest, AReaderThatGoesBackFindsTheSameEntryThere) {
  for (int i = 0; i < 20; ++i) make(std::to_string(i));
  posix::DirectoryReader reader = this->reader();
  std::map<std::uint64_t, std::string> at;
  std::uint64_t position = 0;
  for (int i = 0; i < 22; ++i) {
    const DirectoryItem item = next(reader, position);
    at[position] = item.name;
    position = item.next;
  }
  for (const auto& [earlier, name] : at) EXPECT_EQ(next(reader, earlier).name, name);
}

TEST_F(DirectoryReaderTest, ARewoundReaderSeesThePresentEntries) {
  make("old");
  posix::DirectoryReader reader = this->reader();
  std::uint64_t position = next(reader, next(reader, 0).next).next;
  EXPECT_EQ(next(reader, position).name, "old");
  ASSERT_OK(run(client().rmdir(path_from_root("d/old"))));
  make("new");
  position = next(reader, next(reader, 0).next).next;
  EXPECT_EQ(next(reader, position).name, "new");
}

TEST_F(DirectoryReaderTest, AttributesComeWhenTheyAreRequested) {
  for (int i = 0; i < 4; ++i) make(std::to_string(i));
  posix::DirectoryReader reader = this->reader();
  std::uint64_t position = next(reader, next(reader, 0).next).next;
  const DirectoryItem without = next(reader, position);
  EXPECT_EQ(without.attributes, std::nullopt);
  const DirectoryItem with = next(reader, without.next, true);
  ASSERT_NE(with.attributes, std::nullopt) << "the page was read without attributes";
  EXPECT_EQ(with.attributes->handle, with.handle);
  EXPECT_EQ(with.type, FileType::kDirectory);
}

}  // namespace
}  // namespace spate::posix_test
