// SPDX-License-Identifier: Apache-2.0
#include "client/file/kept_tails.h"

#include "base/expect.h"

namespace spate::client {
namespace {

Bytes content(std::size_t size, unsigned first) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(first + i % 251);
  return bytes;
}

Attributes file_of(std::uint64_t handle, std::uint64_t size, std::uint64_t change_sum) {
  Attributes attributes;
  attributes.handle = Handle(handle);
  attributes.size = size;
  attributes.change_sum = change_sum;
  return attributes;
}

/// The bytes from `offset` on; nothing if there is no copy.
std::optional<Bytes> read(KeptTails& tails, const Attributes& file, std::uint64_t offset, std::size_t room = 4096) {
  Bytes bytes(room);
  const auto length = tails.read(file, offset, bytes);
  if (!length) return std::nullopt;
  bytes.resize(*length);
  return bytes;
}

TEST(KeptTails, HaveWhatIsBehindTheLastWholePage) {
  KeptTails tails(1U << 20U);
  const Bytes bytes = content(10000, 1);
  tails.keep(Handle(7), bytes, 3);
  const Attributes file = file_of(7, 10000, 3);
  EXPECT_EQ(read(tails, file, 8192), Bytes(bytes.begin() + 8192, bytes.end()));
  EXPECT_EQ(read(tails, file, 9000, 10), Bytes(bytes.begin() + 9000, bytes.begin() + 9010));
  EXPECT_EQ(read(tails, file, 10000), Bytes()) << "the end of the file";
  EXPECT_FALSE(read(tails, file, 8191)) << "before the tail";
  EXPECT_FALSE(read(tails, file, 10001)) << "behind the end";
  EXPECT_FALSE(read(tails, file_of(8, 10000, 3), 8192)) << "another file";
  tails.keep(Handle(8), content(8192, 1), 3);
  EXPECT_FALSE(read(tails, file_of(8, 8192, 3), 8192)) << "the kernel has all of it";
}

TEST(KeptTails, AreOfOneStateOfTheFile) {
  KeptTails tails(1U << 20U);
  tails.keep(Handle(7), content(100, 1), 3);
  EXPECT_TRUE(read(tails, file_of(7, 100, 3), 0)) << "unchanged";
  EXPECT_FALSE(read(tails, file_of(7, 100, 4), 0)) << "it was written";
  EXPECT_FALSE(read(tails, file_of(7, 99, 3), 0)) << "it was truncated";
  Attributes written = file_of(7, 100, 3);
  written.size_known = false;
  EXPECT_FALSE(read(tails, written, 0)) << "it is being written";
  tails.keep(Handle(7), content(50, 9), 5);
  EXPECT_FALSE(read(tails, file_of(7, 100, 3), 0)) << "the old state";
  EXPECT_EQ(read(tails, file_of(7, 50, 5), 0), content(50, 9));
}

TEST(KeptTails, TheOldestGoFirst) {
  KeptTails tails(4000);
  for (std::uint64_t handle = 1; handle <= 9; ++handle) tails.keep(Handle(handle), content(1000, 1), 1);
  for (std::uint64_t handle = 1; handle <= 9; ++handle)
    EXPECT_EQ(read(tails, file_of(handle, 1000, 1), 0).has_value(), handle > 6) << handle;
  EXPECT_GE(tails.bytes(), 3000U);
  EXPECT_LE(tails.bytes(), tails.most_bytes());
}

}  // namespace
}  // namespace spate::client
