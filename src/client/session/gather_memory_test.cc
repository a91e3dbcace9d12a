// SPDX-License-Identifier: Apache-2.0
#include "client/session/gather_memory.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/unique_fd.h"

namespace spate::client {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class GatherMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<GatherMemory> open(std::size_t pieces = 3) {
    auto memory = GatherMemory::open(fd_.get(), pieces);
    EXPECT_OK(memory);
    return memory ? *std::move(memory) : nullptr;
  }
  static GatherMemory::Piece of(std::uint64_t handle) {
    GatherMemory::Piece piece;
    piece.handle = Handle(handle);
    piece.offset = handle * 100;
    return piece;
  }

  UniqueFd fd_{::memfd_create("gather", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
};

TEST_F(GatherMemoryTest, ANextProcessFindsWhatWasAdded) {
  auto first = open();
  GatherMemory::Piece* const kept = first->take(of(7));
  GatherMemory::Piece* const sent = first->take(of(8));
  const Bytes bytes(5000, std::byte{7});
  first->add(*kept, bytes, WallTime{1});
  first->add(*kept, bytes, WallTime{2});
  first->add(*sent, bytes, WallTime{3});
  first->give_back(*sent);
  first.reset();
  const auto next = open();
  ASSERT_THAT(next->inherited(), SizeIs(1));
  const GatherMemory::Piece& found = *next->inherited().front();
  EXPECT_EQ(found.handle, Handle(7));
  EXPECT_EQ(found.offset, 700U);
  EXPECT_EQ(found.written, WallTime{2});
  EXPECT_BYTES(to_bytes(next->bytes(found)), Bytes(10000, std::byte{7}));
  EXPECT_EQ(next->used(), 1U);
}

/// As if the process was killed before the size was stored.
TEST_F(GatherMemoryTest, BytesThatWereNotPublishedDoNotCount) {
  auto first = open();
  GatherMemory::Piece* const piece = first->take(of(7));
  first->add(*piece, Bytes(100, std::byte{1}), WallTime{1});
  first->add(*piece, Bytes(100, std::byte{2}), WallTime{2});
  piece->size = 100;
  first.reset();
  const auto next = open();
  ASSERT_THAT(next->inherited(), SizeIs(1));
  EXPECT_BYTES(to_bytes(next->bytes(*next->inherited().front())), Bytes(100, std::byte{1}));
}

TEST_F(GatherMemoryTest, IsBounded) {
  const auto memory = open(2);
  GatherMemory::Piece* const piece = memory->take(of(1));
  ASSERT_NE(piece, nullptr);
  EXPECT_NE(memory->take(of(2)), nullptr);
  EXPECT_EQ(memory->take(of(3)), nullptr);
  memory->give_back(*piece);
  EXPECT_NE(memory->take(of(3)), nullptr);
  EXPECT_EQ(memory->pieces(), 2U);
}

TEST_F(GatherMemoryTest, ANextProcessHasAsManyPieces) {
  std::ignore = open(3);
  const auto next = open(5);
  EXPECT_EQ(next->pieces(), 3U);
  EXPECT_THAT(next->inherited(), IsEmpty());
}

TEST_F(GatherMemoryTest, RefusesMemoryOfAnotherVersion) {
  std::ignore = open(3);
  const std::uint64_t other = 99;
  ASSERT_EQ(::pwrite(fd_.get(), &other, sizeof(other), sizeof(other)), static_cast<ssize_t>(sizeof(other)));
  EXPECT_ERRC(GatherMemory::open(fd_.get(), 3), Errc::kVersionMismatch);
}

TEST_F(GatherMemoryTest, AFilesNameCannotLookLikeOtherFieldsOfALogLine) {
  auto first = open();
  GatherMemory::Piece* const piece = first->take(of(7), "a\" error=\"none\\");
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(GatherMemory::text(*piece), R"(path="a\" error=\"none\\" inode=7 offset=700 bytes=0)");
}

TEST_F(GatherMemoryTest, ANextProcessKnowsTheFilesNameAndWhatWasLost) {
  auto first = open();
  GatherMemory::Piece* const piece = first->take(of(7), "dir/a\nname");
  first->add(*piece, Bytes(100, std::byte{1}), WallTime{1});
  EXPECT_NE(first->take(of(8), std::string(300, 'a') + std::string(255, 'b')), nullptr);
  first->note_loss(*piece);
  first->note_loss(*piece);
  first.reset();
  const auto next = open();
  ASSERT_THAT(next->inherited(), SizeIs(2));
  EXPECT_EQ(GatherMemory::text(*next->inherited()[1]), "path=\"dir/a\\x0aname\" inode=7 offset=700 bytes=100");
  EXPECT_EQ(GatherMemory::text(*next->inherited()[0]),
            "path=\"" + std::string(255, 'b') + "\" inode=8 offset=800 bytes=0");
  EXPECT_EQ(next->losses().requests, 2U);
  EXPECT_EQ(next->losses().bytes, 200U);
}

TEST_F(GatherMemoryTest, ItsSizeCannotBeChanged) {
  std::ignore = open(3);
  EXPECT_NE(::ftruncate(fd_.get(), 100), 0);
}

}  // namespace
}  // namespace spate::client
