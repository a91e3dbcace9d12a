// SPDX-License-Identifier: Apache-2.0
#include "datatype/description.h"

#include "base/expect.h"
#include "datatype/cursor.h"
#include "datatype/description_cases.h"

namespace spate::datatype {
namespace {

using Levels = std::vector<Level>;

std::vector<Piece> pieces_of(const Description& description) {
  std::vector<Piece> pieces;
  for (Cursor cursor(description); !cursor.done(); cursor.next()) pieces.push_back(cursor.piece());
  return pieces;
}

std::vector<std::uint64_t> bytes_of(const Description& description) {
  std::vector<std::uint64_t> bytes;
  for (const Piece& piece : pieces_of(description)) spell_block(piece.offset, piece.size, bytes);
  return bytes;
}

Description strided(std::uint64_t offset, std::uint64_t block_bytes, const Levels& levels) {
  return *Description::strided(offset, block_bytes, levels);
}

Bytes encoded(const Description& description) {
  Bytes bytes;
  Encoder out(bytes);
  encode(out, description);
  return bytes;
}

bool decodes(ByteView bytes) {
  Decoder in(bytes);
  const Description ignored = decode_description(in);
  return in.finish("description").has_value();
}

TEST(Description, ThePartitionOfThePaperIsOneLevel) {
  // PVFS Figure 3: offset 100, gsize 10, stride 40.
  const Levels level{{3, 40}};
  const Description d = strided(100, 10, level);
  EXPECT_EQ(d.kind(), DescriptionKind::kStrided);
  EXPECT_EQ(d.total_bytes(), 30U);
  EXPECT_EQ(pieces_of(d), (std::vector<Piece>{{100, 10, 0}, {140, 10, 10}, {180, 10, 20}}));
}

TEST(Description, EqualShapesAreEqual) {
  const Description run = *Description::contiguous(7, 60);
  const std::vector<Extent> split{{7, 20}, {1000, 0}, {27, 40}};
  EXPECT_EQ(*Description::list(split), run);
  EXPECT_EQ(strided(7, 10, Levels{{1, 99}, {2, 30}, {3, 10}}), run);
  EXPECT_EQ(strided(7, 4, Levels{{5, 100}, {1, 3}, {10, 10}}), strided(7, 4, Levels{{50, 10}}));
  EXPECT_EQ(*Description::contiguous(99, 0), Description());
  EXPECT_EQ(strided(99, 0, Levels{{5, 5}}), Description());
  EXPECT_EQ(*Description::list({}), Description());
}

TEST(Description, ValuesOutOfRangeAreRefused) {
  EXPECT_ERRC(Description::contiguous(kMaxFileBytes - 5, 6), Errc::kFileTooBig);
  EXPECT_ERRC(Description::contiguous(~0ULL, 6), Errc::kFileTooBig);
  EXPECT_ERRC(Description::contiguous(0, kMaxTotalBytes + 1), Errc::kInvalidArgument);
  EXPECT_ERRC(Description::list(std::vector<Extent>(kMaxListPieces + 1)), Errc::kInvalidArgument);
  const std::vector<Extent> too_much{{0, kMaxTotalBytes}, {0, 1}};
  EXPECT_ERRC(Description::list(too_much), Errc::kInvalidArgument);
  EXPECT_ERRC(Description::strided(0, 8, Levels(kMaxLevels + 1)), Errc::kInvalidArgument);
  EXPECT_ERRC(Description::strided(0, 8, Levels{{0, 8}}), Errc::kInvalidArgument);
  EXPECT_ERRC(Description::strided(0, 8, Levels{{1ULL << 40U, 1ULL << 40U}}), Errc::kFileTooBig);
  EXPECT_ERRC(Description::strided(0, 8, Levels{{1ULL << 40U, 0}, {1ULL << 40U, 0}}), Errc::kInvalidArgument);
  EXPECT_ERRC(Description::strided(kMaxFileBytes - 100, 8, Levels{{2, 93}}), Errc::kFileTooBig);
  EXPECT_ERRC(Description::strided(0, 8, Levels{{1ULL << 38U, 16}}), Errc::kInvalidArgument);  // 2^41 bytes
  EXPECT_ERRC(Description::strided_window(0, 8, Levels{{2, 9}}, {1, 16}), Errc::kInvalidArgument);
  EXPECT_ERRC(strided(0, 8, Levels{{2, 9}}).window(9, 8), Errc::kInvalidArgument);
}

TEST(Description, CursorEqualsNaiveExpansion) {
  for (std::uint64_t seed = 1; seed <= 20000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    ASSERT_EQ(c.description.total_bytes(), c.bytes.size()) << "seed " << seed;
    ASSERT_EQ(bytes_of(c.description), c.bytes) << "seed " << seed;
    std::uint64_t stream = 0;
    std::uint64_t last_end = ~0ULL;
    bool ascending = true;
    for (const Piece& piece : pieces_of(c.description)) {
      ASSERT_EQ(piece.stream, stream) << "seed " << seed;
      ASSERT_NE(piece.offset, last_end) << "not merged, seed " << seed;
      ascending = ascending && (stream == 0 || piece.offset > last_end);
      stream += piece.size;
      last_end = piece.end();
    }
    if (c.description.ordered()) ASSERT_TRUE(ascending) << "seed " << seed;
    ASSERT_GE(c.description.blocks(), pieces_of(c.description).size()) << "seed " << seed;
  }
}

TEST(Description, DecodeUndoesEncode) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    const Bytes bytes = encoded(c.description);
    Decoder in(bytes);
    ASSERT_EQ(decode_description(in), c.description) << "seed " << seed;
    ASSERT_OK(in.finish("description")) << "seed " << seed;
    ASSERT_FALSE(decodes(ByteView(bytes).first(random.below(bytes.size())))) << "seed " << seed;
  }
}

TEST(Description, WindowsAreParts) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    const std::uint64_t first = random.below(c.bytes.size() + 1);
    const std::uint64_t size = random.below(c.bytes.size() - first + 1);
    const auto begin = c.bytes.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<std::uint64_t> part(begin, begin + static_cast<std::ptrdiff_t>(size));
    ASSERT_EQ(bytes_of(*c.description.window(first, size)), part) << "seed " << seed;
  }
}

TEST(Description, SeekFindsEveryByte) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    Cursor cursor(c.description);
    const std::uint64_t at = random.below(c.bytes.size() + 1);
    cursor.seek(at);
    ASSERT_EQ(cursor.done(), at == c.bytes.size()) << "seed " << seed;
    std::vector<std::uint64_t> rest(c.bytes.begin(), c.bytes.begin() + static_cast<std::ptrdiff_t>(at));
    for (; !cursor.done(); cursor.next()) {
      ASSERT_EQ(cursor.piece().stream, rest.size()) << "seed " << seed;
      spell_block(cursor.piece().offset, cursor.piece().size, rest);
    }
    ASSERT_EQ(rest, c.bytes) << "seed " << seed;
  }
}

TEST(Description, NextOutsideSkipsOnlyTheGivenRange) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    if (c.bytes.empty()) continue;
    const std::uint64_t from = c.bytes[random.below(c.bytes.size())];
    const std::uint64_t to = from + random.below(300);
    std::vector<std::uint64_t> kept;
    for (Cursor cursor(c.description); !cursor.done(); cursor.next_outside(from, to)) {
      ASSERT_EQ(c.bytes[cursor.piece().stream], cursor.piece().offset) << "seed " << seed;
      for (std::uint64_t i = 0; i < cursor.piece().size; ++i) {
        const std::uint64_t byte = cursor.piece().offset + i;
        if (byte < from || byte >= to) kept.push_back(byte);
      }
    }
    std::vector<std::uint64_t> expected;
    for (const std::uint64_t byte : c.bytes) {
      if (byte < from || byte >= to) expected.push_back(byte);
    }
    ASSERT_EQ(kept, expected) << "seed " << seed;
  }
}

TEST(Description, AHugePatternIsNeverExpanded) {
  // 2^30 rows of 2^20 blocks: the test ends only if the cursor skips the gaps without a walk.
  const Levels levels{{1ULL << 30U, 1ULL << 31U}, {1ULL << 20U, 1024}};
  const Description d = *Description::strided_window(0, 1, levels, {(1ULL << 49U) + 5, 1ULL << 39U});
  Cursor cursor(d);
  EXPECT_EQ(cursor.piece(), (Piece{(1ULL << 60U) + 5 * 1024, 1, 0}));
  cursor.next_outside(0, (1ULL << 60U) + 9 * (1ULL << 31U));
  EXPECT_EQ(cursor.piece().offset, (1ULL << 60U) + 9 * (1ULL << 31U));
  cursor.seek((1ULL << 39U) - 1);
  EXPECT_FALSE(cursor.done());
  cursor.next();
  EXPECT_TRUE(cursor.done());
}

TEST(Description, OneRequestHasALimitedNumberOfBlocks) {
  const Levels level{{3 * kMaxRequestBlocks, 16}};
  const Description d = strided(0, 8, level);
  EXPECT_FALSE(decodes(encoded(d)));
  std::uint64_t at = 0;
  int requests = 0;
  for (; at < d.total_bytes(); ++requests) {
    const std::uint64_t size = at == 0 ? 3 : d.request_bytes(at);
    const Description part = *d.window(at, size);
    EXPECT_LE(part.blocks(), kMaxRequestBlocks);
    EXPECT_TRUE(decodes(encoded(part)));
    at += size;
  }
  EXPECT_EQ(at, d.total_bytes());
  EXPECT_EQ(requests, 4);
}

TEST(Description, ARunIsWhatTheCursorYieldsNext) {
  std::uint64_t leapt = 0;
  for (std::uint64_t seed = 1; seed <= 5000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const DescriptionCase c = draw_case(random);
    std::vector<Piece> expected;
    for (Cursor cursor(c.description); !cursor.done(); cursor.next()) expected.push_back(cursor.piece());
    std::size_t at = 0;
    for (Cursor cursor(c.description); !cursor.done(); ++at) {
      ASSERT_EQ(cursor.piece(), expected[at]);
      const Cursor::Run run = cursor.run();
      for (std::uint64_t i = 1; i <= run.count; ++i) {
        ASSERT_LT(at + i, expected.size());
        const Piece block{expected[at].offset + i * run.stride, expected[at].size,
                          expected[at].stream + i * expected[at].size};
        ASSERT_EQ(expected[at + i], block);
      }
      if (run.count == 0 || random.chance(1, 3)) {
        cursor.next();
        continue;
      }
      const std::uint64_t count = 1 + random.below(run.count);
      cursor.next_in_run(count);
      at += count;
      leapt += count;
      ASSERT_EQ(cursor.piece(), expected[at]);
      cursor.next();
    }
    ASSERT_EQ(at, expected.size());
  }
  EXPECT_GT(leapt, 1000U);
}

TEST(Description, ALongListIsSentInParts) {
  std::vector<Extent> pieces;
  for (std::uint64_t i = 0; i < 100; ++i) pieces.push_back({i * 10, 1 + i % 3});
  const Description d = *Description::list(pieces);
  EXPECT_EQ(d.request_bytes(0, 100), d.total_bytes());
  std::uint64_t at = 2;  // within the second piece
  std::size_t sent = 0;
  while (at < d.total_bytes()) {
    const Description part = *d.window(at, d.request_bytes(at, 7));
    EXPECT_LE(part.blocks(), 7U);
    sent += part.blocks();
    at += part.total_bytes();
  }
  EXPECT_EQ(at, d.total_bytes());
  EXPECT_EQ(sent, 99U);
}

TEST(Description, HostileBytesAreRefused) {
  Bytes bytes;
  Encoder out(bytes);
  out.u8(static_cast<std::uint8_t>(DescriptionKind::kList));
  out.u32(0xFFFFFFFF);  // a count that is too large
  EXPECT_FALSE(decodes(bytes));
  bytes.clear();
  out.u8(4);  // no such kind
  out.u64(0);
  out.u64(0);
  EXPECT_FALSE(decodes(bytes));
  bytes = encoded(strided(5, 8, Levels{{2, 16}}));
  bytes[33] = std::byte{kMaxLevels + 1};
  EXPECT_FALSE(decodes(bytes));
  bytes = encoded(*Description::contiguous(5, 8));
  bytes[8] = std::byte{0xFF};  // the top byte of the offset
  EXPECT_FALSE(decodes(bytes));
}

}  // namespace
}  // namespace spate::datatype
