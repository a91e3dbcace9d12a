// SPDX-License-Identifier: Apache-2.0
#include "trove/pieces.h"

#include <array>
#include <vector>

#include "base/expect.h"
#include "base/random.h"

namespace spate::trove {
namespace {

BytestreamRequest write_of(std::span<const Extent> extents, std::span<const MutableByteView> memory) {
  BytestreamRequest request;
  request.op = BytestreamOp::kWrite;
  request.id = {Handle(1), 0};
  request.extents = extents;
  request.memory = memory;
  return request;
}

TEST(Pieces, ChecksRequests) {
  Bytes memory(10);
  const std::vector<MutableByteView> pieces{memory};
  const auto check = [&](Extent extent) {
    const std::vector<Extent> extents{extent};
    return check_request(write_of(extents, pieces));
  };
  EXPECT_EQ(check({0, 10}), Errc::kOk);
  EXPECT_EQ(check({kMaxOffset - 10, 10}), Errc::kOk);
  EXPECT_EQ(check({kMaxOffset - 9, 10}), Errc::kInvalidArgument);
  EXPECT_EQ(check({0, 9}), Errc::kInvalidArgument);
  EXPECT_EQ(check({0, 11}), Errc::kInvalidArgument);
  const std::vector<Extent> wraps{{0, kMaxOffset}, {0, kMaxOffset}, {0, 12}};
  EXPECT_EQ(check_request(write_of(wraps, pieces)), Errc::kInvalidArgument);
  const std::vector<Extent> too_many(kMaxExtents + 1);
  EXPECT_EQ(check_request(write_of(too_many, {})), Errc::kInvalidArgument);
  BytestreamRequest late = write_of({}, {});
  EXPECT_EQ(check_request(late), Errc::kOk);
  late.now = WallTime{INT64_MAX};
  EXPECT_EQ(check_request(late), Errc::kInvalidArgument);
  late.now = WallTime{-1};
  EXPECT_EQ(check_request(late), Errc::kInvalidArgument);
}

TEST(Pieces, StreamBeforeEnd) {
  const std::vector<Extent> extents{{0, 10}, {20, 0}, {20, 10}, {15, 5}};
  EXPECT_EQ(stream_before_end(extents, 0), 0U);
  EXPECT_EQ(stream_before_end(extents, 5), 5U);
  EXPECT_EQ(stream_before_end(extents, 20), 10U);
  EXPECT_EQ(stream_before_end(extents, 25), 15U);
  EXPECT_EQ(stream_before_end(extents, 30), 25U);
}

TEST(Pieces, Ascending) {
  EXPECT_TRUE(ascending(std::vector<Extent>{{0, 10}, {10, 5}, {20, 1}}));
  EXPECT_FALSE(ascending(std::vector<Extent>{{0, 10}, {9, 5}}));
  EXPECT_FALSE(ascending(std::vector<Extent>{{10, 10}, {0, 5}}));
}

/// The address of each byte of the stream, computed byte by byte. The cursor must agree with it.
std::vector<std::pair<std::uint64_t, std::byte*>> naive(std::span<const Extent> extents,
                                                        std::span<const MutableByteView> memory) {
  std::vector<std::pair<std::uint64_t, std::byte*>> map;
  for (const Extent& extent : extents) {
    for (std::uint64_t i = 0; i < extent.size; ++i) map.emplace_back(extent.offset + i, nullptr);
  }
  std::size_t at = 0;
  for (const MutableByteView& piece : memory) {
    for (std::byte& one : piece) map[at++].second = &one;
  }
  return map;
}

TEST(Pieces, CursorAgreesWithBytewiseExpansion) {
  SeededRandom random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Extent> extents;
    std::uint64_t total = 0;
    for (std::uint64_t i = random.below(6); i > 0; --i) {
      const bool adjacent = !extents.empty() && random.chance(1, 3);
      extents.push_back(
          {adjacent ? extents.back().offset + extents.back().size : random.below(1000), random.below(20)});
      total += extents.back().size;
    }
    Bytes storage(total + 8);
    std::vector<MutableByteView> memory;
    for (std::size_t at = 0; at < total || random.chance(1, 3);) {
      const std::size_t size = std::min<std::size_t>(total - at, random.below(15));
      memory.push_back(MutableByteView(storage).subspan(at, size));
      at += size;
    }
    const auto want = naive(extents, memory);
    PieceCursor cursor(extents, memory, total);
    std::size_t seen = 0;
    while (cursor.left() > 0) {
      std::array<iovec, 3> pieces;
      const Step step = cursor.next(pieces);
      ASSERT_GT(step.bytes, 0U);
      std::size_t in_step = 0;
      for (std::size_t i = 0; i < step.pieces; ++i) {
        for (std::size_t b = 0; b < pieces[i].iov_len; ++b, ++in_step) {
          ASSERT_EQ(want[seen + in_step].first, step.offset + in_step);
          ASSERT_EQ(want[seen + in_step].second, static_cast<std::byte*>(pieces[i].iov_base) + b);
        }
      }
      ASSERT_EQ(in_step, step.bytes);
      const std::uint64_t moved = 1 + random.below(step.bytes);  // a short transfer
      cursor.advance(moved);
      seen += moved;
    }
    EXPECT_EQ(seen, total);
  }
}

}  // namespace
}  // namespace spate::trove
