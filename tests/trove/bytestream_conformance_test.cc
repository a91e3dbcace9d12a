// SPDX-License-Identifier: Apache-2.0
// What every bytestream module promises (trove/bytestream.h), operation by operation.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "trove/bytestream_harness.h"

namespace spate::trove {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

Bytes zeros(std::size_t size) { return Bytes(size); }

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

Bytes part_of(const Bytes& bytes, std::size_t from, std::size_t size) {
  return {bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.begin() + static_cast<std::ptrdiff_t>(from + size)};
}

TEST_P(BytestreamTest, NeverWrittenIsEmpty) {
  const BytestreamStat empty = stat(id(9));
  EXPECT_EQ(empty.size, 0U);
  EXPECT_EQ(empty.allocated_bytes, 0U);
  EXPECT_EQ(empty.change_counter, 0U);
  EXPECT_EQ(empty.mtime, WallTime{0});
  EXPECT_EQ(read(id(9), 0, 100), Bytes());
  EXPECT_EQ(run(BytestreamOp::kOpen, id(9)).status, Errc::kNotFound);
  EXPECT_EQ(run(BytestreamOp::kRemove, id(9)).status, Errc::kOk);
  EXPECT_EQ(run(BytestreamOp::kSync, id(9)).status, Errc::kOk);
  EXPECT_EQ(run(BytestreamOp::kMakeResident, id(9), {{0, 10}}).status, Errc::kOk);
  EXPECT_EQ(truncate(id(9), 0).status, Errc::kOk);
  EXPECT_EQ(run(BytestreamOp::kOpen, id(9)).status, Errc::kNotFound);
  EXPECT_THAT(streams().list({}, 10).value(), testing::IsEmpty());
}

TEST_P(BytestreamTest, WriteThenRead) {
  const Bytes data = pattern(1, 10'000);
  const BytestreamCompletion done = write(id(1), 0, data);
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.bytes, data.size());
  EXPECT_EQ(done.stat.size, data.size());
  EXPECT_EQ(done.stat.mtime, now);
  EXPECT_GE(done.stat.change_counter, static_cast<std::uint64_t>(now.ns));
  EXPECT_GE(done.stat.allocated_bytes, 0U);
  EXPECT_EQ(read(id(1), 0, data.size()), data);
  EXPECT_EQ(read(id(1), 9'000, 5'000), part_of(data, 9'000, 1'000));
  EXPECT_EQ(read(id(1), 10'000, 10), Bytes());
  EXPECT_EQ(read(id(1), 1U << 30U, 10), Bytes());
}

TEST_P(BytestreamTest, DatafilesAreApart) {
  write(id(1, 0), 0, pattern(1, 100));
  write(id(1, 1), 0, pattern(2, 100));
  write(id(2, 0), 0, pattern(3, 100));
  EXPECT_EQ(read(id(1, 0), 0, 100), pattern(1, 100));
  EXPECT_EQ(read(id(1, 1), 0, 100), pattern(2, 100));
  EXPECT_EQ(read(id(2, 0), 0, 100), pattern(3, 100));
  EXPECT_EQ(stat(id(2, 1)).size, 0U);
}

TEST_P(BytestreamTest, HolesReadAsZeros) {
  const Bytes data = pattern(4, 1000);
  write(id(1), 5'000'000, data);
  EXPECT_EQ(stat(id(1)).size, 5'001'000U);
  EXPECT_LT(stat(id(1)).allocated_bytes, 1'000'000U);
  EXPECT_EQ(read(id(1), 0, 70'000), zeros(70'000));
  EXPECT_EQ(read(id(1), 4'999'000, 3000), joined({zeros(1000), data}));
}

TEST_P(BytestreamTest, OffsetsBeyondFourGiB) {
  const std::uint64_t far = (std::uint64_t{1} << 40U) + 12'345;
  const Bytes data = pattern(5, 777);
  EXPECT_EQ(write(id(1), far, data).stat.size, far + data.size());
  EXPECT_EQ(read(id(1), far - 10, 1000), joined({zeros(10), data}));
  EXPECT_EQ(run(BytestreamOp::kPunch, id(1), {{far + 10, 20}}).status, Errc::kOk);
  EXPECT_EQ(read(id(1), far, 40), joined({part_of(data, 0, 10), zeros(20), part_of(data, 30, 10)}));
}

TEST_P(BytestreamTest, ImpossibleRequestsAreRefused) {
  Bytes memory(16);
  const auto status = [&](Extent extent, DatafileId datafile) {
    return wait(post(BytestreamOp::kWrite, datafile, {extent}, {memory})).status;
  };
  EXPECT_EQ(status({(std::uint64_t{1} << 63U) - 8, 16}, id(1)), Errc::kInvalidArgument);
  EXPECT_EQ(status({~std::uint64_t{0}, 16}, id(1)), Errc::kInvalidArgument);
  EXPECT_EQ(status({0, 15}, id(1)), Errc::kInvalidArgument);
  EXPECT_EQ(status({0, 17}, id(1)), Errc::kInvalidArgument);
  EXPECT_EQ(status({0, 16}, DatafileId{}), Errc::kInvalidArgument);
  EXPECT_EQ(truncate(id(1), std::uint64_t{1} << 63U).status, Errc::kInvalidArgument);
  EXPECT_EQ(run(BytestreamOp::kPunch, id(1), {{1, ~std::uint64_t{0}}}).status, Errc::kInvalidArgument);
  EXPECT_EQ(stat(id(1)).size, 0U);
  EXPECT_EQ(status({0, 16}, id(1)), Errc::kOk);
}

TEST_P(BytestreamTest, ListsOfExtentsAndPieces) {
  Bytes data = pattern(6, 1000);
  // Four extents, of which two are adjacent, and three pieces with other borders. Empty ones lie between them.
  const std::vector<Extent> extents{{100, 250}, {1000, 0}, {1000, 350}, {1350, 150}, {9000, 250}};
  const MutableByteView all(data);
  const BytestreamCompletion done =
      wait(post(BytestreamOp::kWrite, id(1), extents,
                {all.first(600), all.subspan(600, 0), all.subspan(600, 1), all.subspan(601)}));
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.bytes, 1000U);
  EXPECT_EQ(read(id(1), 100, 250), part_of(data, 0, 250));
  EXPECT_EQ(read(id(1), 1000, 500), part_of(data, 250, 500));
  EXPECT_EQ(read(id(1), 9000, 250), part_of(data, 750, 250));
  Bytes back(1000);
  const MutableByteView out(back);
  EXPECT_EQ(
      wait(post(BytestreamOp::kRead, id(1), extents, {out.first(1), out.subspan(1, 998), out.subspan(999)})).bytes,
      1000U);
  EXPECT_EQ(back, data);
}

TEST_P(BytestreamTest, ManySmallExtents) {
  constexpr std::size_t kCount = 3000;  // more than one system call accepts
  Bytes data = pattern(7, kCount * 3);
  std::vector<Extent> extents;
  std::vector<MutableByteView> pieces;
  for (std::size_t i = 0; i < kCount; ++i) extents.push_back({i * 7, 3});
  for (std::size_t i = 0; i < kCount * 3; i += 5)
    pieces.push_back(MutableByteView(data).subspan(i, std::min<std::size_t>(5, kCount * 3 - i)));
  EXPECT_EQ(wait(post(BytestreamOp::kWrite, id(1), extents, pieces)).bytes, data.size());
  EXPECT_EQ(stat(id(1)).size, (kCount - 1) * 7 + 3);
  Bytes back(data.size());
  EXPECT_EQ(wait(post(BytestreamOp::kRead, id(1), extents, {back})).bytes, back.size());
  EXPECT_EQ(back, data);
  EXPECT_EQ(read(id(1), 3, 4), zeros(4));
}

TEST_P(BytestreamTest, OverlappingExtentsOfOneWriteGoInOrder) {
  const Bytes before = pattern(8, 300'000);
  Bytes data = before;
  const std::vector<Extent> extents{{0, 100'000}, {50'000, 100'000}, {25'000, 100'000}};
  EXPECT_EQ(wait(post(BytestreamOp::kWrite, id(1), extents, {data})).status, Errc::kOk);
  const Bytes want =
      joined({part_of(before, 0, 25'000), part_of(before, 200'000, 100'000), part_of(before, 175'000, 25'000)});
  EXPECT_EQ(read(id(1), 0, 200'000), want);
}

TEST_P(BytestreamTest, ListReadStopsAtTheEnd) {
  const Bytes data = pattern(9, 1000);
  write(id(1), 0, data);
  Bytes back(900, std::byte{0xEE});
  const BytestreamCompletion done = wait(post(BytestreamOp::kRead, id(1), {{0, 300}, {800, 300}, {2000, 300}}, {back}));
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.bytes, 500U);
  EXPECT_EQ(part_of(back, 0, 500), joined({part_of(data, 0, 300), part_of(data, 800, 200)}));
  EXPECT_EQ(part_of(back, 500, 400), Bytes(400, std::byte{0xEE}));
}

TEST_P(BytestreamTest, EmptyReadsAndWritesDoNothing) {
  EXPECT_EQ(wait(post(BytestreamOp::kWrite, id(1), {{100, 0}})).status, Errc::kOk);
  EXPECT_EQ(stat(id(1)).size, 0U);
  EXPECT_EQ(run(BytestreamOp::kOpen, id(1)).status, Errc::kNotFound);
  write(id(1), 0, pattern(1, 10));
  const BytestreamCompletion done = wait(post(BytestreamOp::kRead, id(1), {{5, 0}}));
  EXPECT_EQ(done.bytes, 0U);
  EXPECT_EQ(done.stat.size, 10U);
}

TEST_P(BytestreamTest, TruncateDownAndUp) {
  const Bytes data = pattern(10, 9000);
  write(id(1), 0, data);
  EXPECT_EQ(truncate(id(1), 5000).stat.size, 5000U);
  EXPECT_EQ(truncate(id(1), 9000).stat.size, 9000U);
  EXPECT_EQ(read(id(1), 0, 10'000), joined({part_of(data, 0, 5000), zeros(4000)}));
  EXPECT_EQ(truncate(id(1), 0).stat.size, 0U);
  EXPECT_EQ(truncate(id(2), 12'345).stat.size, 12'345U);
  EXPECT_EQ(read(id(2), 0, 20'000), zeros(12'345));
}

TEST_P(BytestreamTest, PunchLeavesSizeAndZeros) {
  const Bytes data = pattern(11, 200'000);
  write(id(1), 0, data);
  const std::uint64_t allocated = stat(id(1)).allocated_bytes;
  const BytestreamCompletion done =
      run(BytestreamOp::kPunch, id(1), {{1000, 100'000}, {150'000, 1}, {190'000, 100'000}});
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.stat.size, 200'000U);
  EXPECT_LT(done.stat.allocated_bytes, allocated);
  Bytes want = data;
  std::fill(want.begin() + 1000, want.begin() + 101'000, std::byte{0});
  want[150'000] = std::byte{0};
  std::fill(want.begin() + 190'000, want.end(), std::byte{0});
  EXPECT_EQ(read(id(1), 0, 200'000), want);
}

TEST_P(BytestreamTest, AllocateReservesAndKeepsTheSize) {
  const BytestreamCompletion done = run(BytestreamOp::kAllocate, id(1), {{0, kMiB}});
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.stat.size, 0U);
  EXPECT_GE(done.stat.allocated_bytes, kMiB);
  write(id(1), 100, pattern(1, 100));
  const BytestreamStat before = stat(id(1));
  EXPECT_EQ(run(BytestreamOp::kAllocate, id(1), {{0, 2 * kMiB}}).stat.size, 200U);
  EXPECT_GT(stat(id(1)).change_counter, before.change_counter);
  EXPECT_GT(stat(id(1)).mtime, before.mtime);
  EXPECT_EQ(read(id(1), 100, 100), pattern(1, 100));
}

TEST_P(BytestreamTest, APunchNotesTheTimeAlsoWhereNothingIs) {
  for (const DatafileId which : {id(1), id(2)}) {
    if (which == id(1)) write(which, 0, pattern(1, 100));
    const BytestreamStat before = stat(which);
    const BytestreamCompletion done = run(BytestreamOp::kPunch, which, {{kMiB, 10}});
    EXPECT_EQ(done.status, Errc::kOk);
    EXPECT_EQ(done.stat.size, before.size);
    EXPECT_GT(done.stat.mtime, before.mtime);
    EXPECT_GT(done.stat.change_counter, before.change_counter);
    EXPECT_EQ(stat(which).mtime, done.stat.mtime);
  }
}

TEST_P(BytestreamTest, CounterGrowsWithEachChangeOnly) {
  std::uint64_t last = write(id(1), 0, pattern(1, 100)).stat.change_counter;
  const auto grew = [&](const BytestreamCompletion& done) {
    const bool more = done.stat.change_counter > last;
    last = done.stat.change_counter;
    return more;
  };
  EXPECT_TRUE(grew(write(id(1), 0, pattern(1, 100))));
  EXPECT_TRUE(grew(truncate(id(1), 50)));
  EXPECT_TRUE(grew(truncate(id(1), 50)));
  EXPECT_TRUE(grew(run(BytestreamOp::kPunch, id(1), {{0, 10}})));
  EXPECT_FALSE(grew(run(BytestreamOp::kSync, id(1))));
  EXPECT_EQ(stat(id(1)).change_counter, last);
  read(id(1), 0, 10);
  run(BytestreamOp::kMakeResident, id(1), {{0, 10}});
  EXPECT_EQ(stat(id(1)).change_counter, last);
  const WallTime reached = stat(id(1)).mtime;
  now.ns -= 1'000'000'000;  // the clock steps back
  EXPECT_TRUE(grew(write(id(1), 0, pattern(1, 100))));
  EXPECT_EQ(stat(id(1)).mtime, reached);
}

TEST_P(BytestreamTest, AWriteAfterARemovalStartsWithAnEmptyDatafile) {
  write(id(1), 0, pattern(1, 5000));
  EXPECT_EQ(run(BytestreamOp::kRemove, id(1)).status, Errc::kOk);
  EXPECT_EQ(stat(id(1)).size, 0U);
  EXPECT_EQ(stat(id(1)).change_counter, 0U);
  EXPECT_EQ(run(BytestreamOp::kSync, id(1)).status, Errc::kOk);
  write(id(1), 10, pattern(2, 5));
  EXPECT_EQ(read(id(1), 0, 100), joined({zeros(10), pattern(2, 5)}));
}

TEST_P(BytestreamTest, OpenYieldsADescriptorThatOutlivesRemoval) {
  if (!backend().real_descriptors()) GTEST_SKIP() << "no descriptors of the kernel";
  const Bytes data = pattern(12, 5000);
  write(id(1), 0, data);
  const std::shared_ptr<const OpenDatafile> file = run(BytestreamOp::kOpen, id(1)).file;
  ASSERT_NE(file, nullptr);
  struct stat st{};
  ASSERT_EQ(::fstat(file->descriptor(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0600U);
  EXPECT_EQ(st.st_uid, ::geteuid());
  run(BytestreamOp::kRemove, id(1));
  write(id(1), 0, pattern(13, 5000));  // in a new local file
  Bytes back(5000);
  ASSERT_EQ(::pread(file->descriptor(), back.data(), back.size(), 0), 5000);
  EXPECT_EQ(back, data);
}

TEST_P(BytestreamTest, MakeResidentThenRead) {
  const Bytes data = pattern(14, 3 * kMiB);
  write(id(1), 0, data);
  run(BytestreamOp::kSync, id(1));
  const std::shared_ptr<const OpenDatafile> file = run(BytestreamOp::kOpen, id(1)).file;
  if (backend().real_descriptors()) ::posix_fadvise(file->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  const BytestreamCompletion done = run(BytestreamOp::kMakeResident, id(1), {{kMiB, kMiB}, {0, 10}, {5 * kMiB, kMiB}});
  EXPECT_EQ(done.status, Errc::kOk);
  EXPECT_EQ(done.stat.size, data.size());
  if (backend().real_descriptors()) {
    Bytes now_there(kMiB);
    const iovec memory{now_there.data(), now_there.size()};
    const ssize_t n = ::preadv2(file->descriptor(), &memory, 1, kMiB, RWF_NOWAIT);
    if (n >= 0 || errno != EOPNOTSUPP) EXPECT_EQ(n, static_cast<ssize_t>(kMiB)) << "not in the page cache";
  }
  EXPECT_EQ(read(id(1), 0, data.size()), data);
}

TEST_P(BytestreamTest, ColdReads) {
  const Bytes data = pattern(15, 3 * kMiB + 123);
  write(id(1), 0, data);
  run(BytestreamOp::kSync, id(1));
  if (backend().real_descriptors()) {
    const std::shared_ptr<const OpenDatafile> file = run(BytestreamOp::kOpen, id(1)).file;
    ::posix_fadvise(file->descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
  EXPECT_EQ(read(id(1), 777, data.size()), part_of(data, 777, data.size() - 777));
}

TEST_P(BytestreamTest, ListPagesThroughAllOnce) {
  std::set<DatafileId> want;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    const DatafileId one = id(i * 0x1'0000'0001ULL, static_cast<std::uint32_t>(i % 3));
    write(one, 0, pattern(i, 1));
    want.insert(one);
  }
  for (const std::size_t page_size : {1U, 7U, 100U, 1000U}) {
    std::set<DatafileId> seen;
    DatafileId after;
    while (true) {
      const std::vector<DatafileId> page = streams().list(after, page_size).value();
      ASSERT_LE(page.size(), page_size);
      if (page.empty()) break;
      for (const DatafileId& one : page) EXPECT_TRUE(seen.insert(one).second) << "listed twice";
      after = page.back();
    }
    EXPECT_EQ(seen, want);
  }
}

TEST_P(BytestreamTest, NewlyWrittenDataIsReportedAsCached) {
  ASSERT_EQ(write(id(1), 0, pattern(1, 64 * 4096)).status, Errc::kOk);
  const BytestreamCompletion probed = run(BytestreamOp::kProbeCache, id(1), {{0, 64 * 4096}});
  if (probed.status == Errc::kOk)
    EXPECT_EQ(probed.bytes, GetParam().find("sim") == std::string::npos ? 64 * 4096U : 0U);
  else
    EXPECT_EQ(probed.status, Errc::kNotSupported);
}

TEST_P(BytestreamTest, ANotedChangeMovesOnlyTheCounter) {
  ASSERT_EQ(write(id(1), 0, pattern(1, 100)).status, Errc::kOk);
  const BytestreamStat before = stat(id(1));
  ASSERT_EQ(run(BytestreamOp::kNoteChange, id(1)).status, Errc::kOk);
  const BytestreamStat after = stat(id(1));
  EXPECT_GT(after.change_counter, before.change_counter);
  EXPECT_EQ(after.size, before.size);
  EXPECT_BYTES(read(id(1), 0, 200), pattern(1, 100));
}

TEST_P(BytestreamTest, SpaceIsPlausible) {
  const SpaceInfo space = streams().space().value();
  EXPECT_GT(space.total_bytes, 0U);
  EXPECT_LE(space.free_bytes, space.total_bytes);
  EXPECT_LE(space.free_files, space.total_files);
}

INSTANTIATE_TEST_SUITE_P(Modules, BytestreamTest, testing::ValuesIn(backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace spate::trove
