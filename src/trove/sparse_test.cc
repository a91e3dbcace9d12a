// SPDX-License-Identifier: Apache-2.0
// The bytes of a local file that have a place on its device.
#include "trove/sparse.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/expect.h"
#include "base/unique_fd.h"

namespace spate::trove {
namespace {

constexpr std::uint64_t kBlock = 64 * 1024;  // a multiple of every file system's block

void write_block(int fd, std::uint64_t number) {
  const Bytes data(kBlock, std::byte{7});
  ASSERT_EQ(::pwrite(fd, data.data(), data.size(), static_cast<off_t>(number * kBlock)),
            static_cast<ssize_t>(data.size()));
}

TEST(MissingBytes, HolesAreMissing) {
  const UniqueFd fd(::open(".", O_TMPFILE | O_RDWR, 0600));
  if (!fd) GTEST_SKIP() << "the build folder's file system has no unnamed files";
  EXPECT_EQ(missing_bytes(fd.get(), {100, kBlock}), kBlock) << "of an empty file";
  for (const std::uint64_t block : {0U, 2U, 3U, 9U}) write_block(fd.get(), block);
  EXPECT_EQ(missing_bytes(fd.get(), {0, kBlock}), 0U);
  EXPECT_EQ(missing_bytes(fd.get(), {0, 20 * kBlock}), 16 * kBlock);
  EXPECT_EQ(missing_bytes(fd.get(), {2 * kBlock + 1, 2 * kBlock}), 1U);
  EXPECT_EQ(missing_bytes(fd.get(), {10 * kBlock, kBlock}), kBlock) << "behind the end";
}

TEST(MissingBytes, ReservedSpaceHasItsPlaceWhereTheFileSystemReportsIt) {
  const UniqueFd fd(::open(".", O_TMPFILE | O_RDWR, 0600));
  if (!fd) GTEST_SKIP() << "the build folder's file system has no unnamed files";
  write_block(fd.get(), 0);
  if (::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, 10 * kBlock) != 0) GTEST_SKIP() << "no fallocate here";
  const std::uint64_t missing = missing_bytes(fd.get(), {0, 11 * kBlock});
  if (missing == 10 * kBlock) GTEST_SKIP() << "this file system does not report reserved space";
  EXPECT_EQ(missing, kBlock);
}

TEST(MissingBytes, AFileOfManyExtents) {
  const UniqueFd fd(::open(".", O_TMPFILE | O_RDWR, 0600));
  if (!fd) GTEST_SKIP() << "the build folder's file system has no unnamed files";
  constexpr std::uint64_t kPieces = 100;
  for (std::uint64_t i = 0; i < kPieces; ++i) write_block(fd.get(), 2 * i);
  EXPECT_EQ(missing_bytes(fd.get(), {0, 2 * kPieces * kBlock}), kPieces * kBlock);
}

}  // namespace
}  // namespace spate::trove
