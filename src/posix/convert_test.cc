// SPDX-License-Identifier: Apache-2.0
#include "posix/convert.h"

#include <dirent.h>

#include <optional>

#include "base/expect.h"

namespace spate::posix {
namespace {

TEST(Convert, TimesBefore1970KeepTheirNanoseconds) {
  for (const std::int64_t ns : {0LL, 1LL, -1LL, 1'999'999'999LL, -1'999'999'999LL, -1'000'000'000LL}) {
    const timespec time = to_timespec(WallTime{ns});
    EXPECT_GE(time.tv_nsec, 0) << ns;
    EXPECT_LT(time.tv_nsec, 1'000'000'000) << ns;
    EXPECT_EQ(to_wall_time(time).ns, ns);
  }
  EXPECT_EQ(to_timespec(WallTime{-1}).tv_sec, -1);
}

TEST(Convert, TimesThatDoNotFitBecomeTheNearest) {
  EXPECT_GT(to_wall_time({.tv_sec = INT64_MAX, .tv_nsec = 999'999'999}).ns, INT64_MAX - 2'000'000'000);
  EXPECT_LT(to_wall_time({.tv_sec = INT64_MIN, .tv_nsec = 0}).ns, INT64_MIN + 3'000'000'000);
}

TEST(Convert, SetTimesAsUtimensatTakesThem) {
  wire::SetattrRequest request;
  EXPECT_OK(set_times(nullptr, request));
  EXPECT_TRUE(request.atime_now);
  EXPECT_TRUE(request.mtime_now);
  request = {};
  const timespec mixed[2] = {{0, UTIME_OMIT}, {5, 6}};
  EXPECT_OK(set_times(mixed, request));
  EXPECT_EQ(request.atime, std::nullopt);
  EXPECT_FALSE(request.atime_now);
  EXPECT_FALSE(request.mtime_now);
  EXPECT_EQ(request.mtime->ns, 5'000'000'006);
  const timespec now[2] = {{0, UTIME_NOW}, {0, 1'000'000'000}};
  EXPECT_ERRC(set_times(now, request), Errc::kInvalidArgument);
  EXPECT_TRUE(request.atime_now);
}

TEST(Convert, EveryTypeHasItsBits) {
  for (const auto number : {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK}) {
    const auto bits = static_cast<mode_t>(number);
    const auto type = type_of_mode(bits | 0644);
    ASSERT_OK(type);
    EXPECT_EQ(type_bits(*type), bits);
    EXPECT_EQ(entry_type(*type), IFTODT(bits));
  }
  EXPECT_EQ(*type_of_mode(0644), FileType::kRegular);
  EXPECT_ERRC(type_of_mode(S_IFMT), Errc::kInvalidArgument);
}

TEST(Convert, StatCountsBlocksOf512Bytes) {
  Attributes a;
  a.handle = Handle(7);
  a.type = FileType::kRegular;
  a.mode = 04755;
  a.size = 1000;
  a.allocated_bytes = 4097;
  const struct stat st = to_stat(a, 65536);
  EXPECT_EQ(st.st_ino, 7U);
  EXPECT_EQ(st.st_mode, S_IFREG | 04755U);
  EXPECT_EQ(st.st_size, 1000);
  EXPECT_EQ(st.st_blocks, 9);
  EXPECT_EQ(st.st_blksize, 65536);
}

}  // namespace
}  // namespace spate::posix
