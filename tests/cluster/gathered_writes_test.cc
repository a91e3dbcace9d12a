// SPDX-License-Identifier: Apache-2.0
// A client gathers small writes of a file that it alone writes. Another client that opens the file sees them all.
#include "tests/cluster/gathered_writes_fixture.h"

namespace spate::cluster {
namespace {

using client::path_from_root;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(GatheredWritesTest, SmallWritesThatFollowOneAnotherAreSentTogether) {
  const auto file = create();
  writes();
  for (std::uint64_t i = 0; i < 16; ++i) ASSERT_OK(gather(*file, i * 4096, 4096));
  EXPECT_EQ(writes(), 0U);
  EXPECT_EQ(stat(*a_).value().size, 16 * 4096U) << "the client's own stat";
  ASSERT_OK(run(*a_, file->close()));
  EXPECT_LE(writes(), 4U) << "at most one for each datafile";
  EXPECT_EQ(stat(*b_).value().size, 16 * 4096U);
  const auto other = open(*b_, wire::kOpenRead);
  ASSERT_OK(other);
  EXPECT_BYTES(read(*b_, **other, 100000), pattern(0, 16 * 4096));
}

TEST_F(GatheredWritesTest, AppendsAreSentTogether) {
  const auto file = create();
  writes();
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Bytes bytes = pattern(i * 1000, 1000);
    const std::array<ByteView, 1> memory{bytes};
    EXPECT_EQ(run(*a_, file->append(memory, {}, file->gathering())).value(), i * 1000);
  }
  EXPECT_EQ(writes(), 0U);
  EXPECT_BYTES(read(*a_, *file, 30000), pattern(0, 20000));
  ASSERT_OK(run(*a_, file->close()));
}

TEST_F(GatheredWritesTest, ServersGetThemWithinASecond) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 4096));
  EXPECT_TRUE(unsent(*file)) << "it was not gathered";
  world_.run_for(seconds(1));
  EXPECT_FALSE(unsent(*file)) << "after a second";
  EXPECT_EQ(stat(*b_).value().size, 4096U);
  ASSERT_OK(run(*a_, file->close()));
}

/// The client's own stat gives the same answer before and after the servers get the data.
TEST_F(GatheredWritesTest, TimesAreThoseOfTheWrites) {
  const auto file = create();
  world_.run_for(milliseconds(50));
  ASSERT_OK(gather(*file, 0, 4096));
  const auto before = stat(*a_);
  world_.run_for(seconds(1));
  const auto after = stat(*a_);
  EXPECT_EQ(before.value().mtime, after.value().mtime);
  EXPECT_EQ(before.value().ctime, after.value().ctime);
  EXPECT_EQ(stat(*b_).value().mtime, after.value().mtime);
  ASSERT_OK(run(*a_, file->close()));
}

TEST_F(GatheredWritesTest, AnOpenByAnotherClientSeesThemAll) {
  for (const std::uint8_t flags : {std::uint8_t{wire::kOpenRead}, kReadWrite}) {
    const std::string name = "f" + std::to_string(flags);
    const auto file = create(name);
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_OK(gather(*file, i * 4096, 4096));
    EXPECT_TRUE(unsent(*file)) << "they were not gathered";
    const auto other = open(*b_, flags, name);
    ASSERT_OK(other);
    EXPECT_BYTES(read(*b_, **other, 100000), pattern(0, 5 * 4096));
    ASSERT_OK(gather(*file, 5 * 4096, 4096));
    EXPECT_FALSE(unsent(*file)) << "after the recall a write was gathered";
    EXPECT_BYTES(read(*b_, **other, 100000), pattern(0, 6 * 4096));
    ASSERT_OK(run(*b_, (*other)->close()));
    ASSERT_OK(run(*a_, file->close()));
  }
}

/// The other client's open comes at any moment of this client's writes. Each write that was answered before the open
/// was answered is there.
TEST_F(GatheredWritesTest, AnOpenByAnotherClientAtAnyMomentSeesThemAll) {
  for (int i = 0; i < 80; ++i) {
    const std::string name = "g" + std::to_string(i);
    const auto opened = [&] { return begin_call(*b_, b_->client().open(path_from_root(name), wire::kOpenRead)); };
    const auto made = begin_call(*a_, a_->client().create(path_from_root(name), kReadWrite, {}));
    world_.run_for(std::chrono::microseconds(10 * i));
    auto early = opened();
    auto file = *end_call(world_, made);
    std::uint64_t size = 0;
    for (; size < 8 * 512; size += 512) {
      ASSERT_OK(gather(*file, size, 512));
      world_.run_for(std::chrono::microseconds(3));
    }
    auto other = end_call(world_, early);
    if (!other) other = end_call(world_, opened());
    ASSERT_OK(other);
    EXPECT_BYTES(read(*b_, **other, 100000), pattern(0, size)) << i;
    ASSERT_OK(run(*b_, (*other)->close()));
    ASSERT_OK(run(*a_, file->close()));
  }
}

TEST_F(GatheredWritesTest, AReaderThatOpenedBeforeSeesEachWrite) {
  const auto file = create();
  const auto other = open(*b_, wire::kOpenRead);
  ASSERT_OK(other);
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_OK(gather(*file, i * 4096, 4096));
    EXPECT_BYTES(read(*b_, **other, 100000), pattern(0, (i + 1) * 4096));
  }
  ASSERT_OK(run(*b_, (*other)->close()));
  ASSERT_OK(run(*a_, file->close()));
}

TEST_F(GatheredWritesTest, ChangesOfTheFileComeAfterThem) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 4096));
  ASSERT_OK(run(*a_, file->truncate(100)));
  EXPECT_EQ(stat(*b_).value().size, 100U) << "ftruncate";
  ASSERT_OK(run(*a_, file->close()));

  const auto second = create("g");
  ASSERT_OK(gather(*second, 0, 4096));
  ASSERT_OK(run(*a_, second->punch(0, 2000)));
  Bytes expected = pattern(0, 4096);
  std::fill_n(expected.begin(), 2000, std::byte{0});
  EXPECT_BYTES(read(*a_, *second, 5000), expected);
  ASSERT_OK(gather(*second, 4096, 4096));
  ASSERT_OK(run(*b_, b_->client().truncate(path_from_root("g"), 7)));
  EXPECT_EQ(stat(*a_, "g").value().size, 7U) << "a truncation by another client";
  ASSERT_OK(run(*a_, second->close()));

  const auto third = create("h");
  ASSERT_OK(gather(*third, 0, 4096));
  wire::SetattrRequest times;
  times.where = path_from_root("h");
  times.mtime = WallTime{1000};
  ASSERT_OK(run(*a_, a_->client().setattr(times)));
  EXPECT_EQ(stat(*a_, "h").value().mtime, WallTime{1000});
  world_.run_for(seconds(2));
  EXPECT_EQ(stat(*a_, "h").value().mtime, WallTime{1000});
  ASSERT_OK(run(*a_, third->close()));
  EXPECT_EQ(stat(*b_, "h").value().mtime, WallTime{1000});
}

TEST_F(GatheredWritesTest, AnotherOpenOfTheSameClientSeesThemAll) {
  const auto file = create();
  ASSERT_OK(gather(*file, 0, 4096));
  const auto reader = open(*a_, wire::kOpenRead);
  ASSERT_OK(reader);
  ASSERT_OK(gather(*file, 4096, 4096));
  EXPECT_BYTES(read(*a_, **reader, 100000), pattern(0, 8192));
  const auto writer = open(*a_, wire::kOpenWrite);
  ASSERT_OK(writer);
  const Bytes over(100, std::byte{9});
  ASSERT_OK(run(*a_, (*writer)->write(0, over)));
  ASSERT_OK(gather(*file, 8192, 4096));
  Bytes expected = pattern(0, 3 * 4096);
  std::copy(over.begin(), over.end(), expected.begin());
  EXPECT_BYTES(read(*a_, **reader, 100000), expected);
  ASSERT_OK(run(*a_, (*writer)->close()));
  ASSERT_OK(run(*a_, (*reader)->close()));
  ASSERT_OK(run(*a_, file->close()));
}

}  // namespace
}  // namespace spate::cluster
