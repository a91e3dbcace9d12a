// SPDX-License-Identifier: Apache-2.0
#include "mpiio/exchange_plan.h"

#include <random>
#include <set>

#include "base/expect.h"

namespace spate::mpiio {
namespace {

TEST(ExchangePlan, EveryByteHasOneOwnerAndOneRound) {
  const Domains domains(1000, 5000, 100, 3, 250);  // two strips for each aggregator in a round
  EXPECT_EQ(domains.rounds(), 7);
  EXPECT_EQ(domains.round_end(0), 1600);
  EXPECT_EQ(domains.round_end(6), 5000);
  EXPECT_EQ(domains.owner(1000), 1);
  EXPECT_EQ(domains.owner(1099), 1);
  EXPECT_EQ(domains.owner(1100), 2);
  EXPECT_EQ(domains.strip_end(1099), 1100);
  EXPECT_EQ(domains.strip_end(1100), 1200);
}

TEST(ExchangePlan, NoAggregatorGetsMoreThanItsBuffer) {
  const Domains domains(50, 100000, 64, 4, 1000);
  std::int64_t at = 50;
  for (int round = 0; round < domains.rounds(); ++round) {
    std::map<int, std::int64_t> share;
    for (; at < domains.round_end(round);) {
      const std::int64_t next = std::min(domains.strip_end(at), domains.round_end(round));
      share[domains.owner(at)] += next - at;
      at = next;
    }
    for (const auto& [who, bytes] : share) EXPECT_LE(bytes, 1000) << who;
  }
  EXPECT_EQ(at, 100000);
}

TEST(ExchangePlan, ABufferSmallerThanAStripStillHasOne) { EXPECT_EQ(Domains(0, 1000, 100, 2, 1).rounds(), 5); }

TEST(ExchangePlan, RanksThatWantTheSameBytesShareTheBuffer) {
  const Params by_turns[] = {{0, 1000, 500, 10, 0}, {50, 1050, 500, 10, 0}};
  EXPECT_EQ(round_share(by_turns, 1 << 20, 2), 1U << 20U);
  const std::vector<Params> all_the_same(64, Params{0, 1000, 1000, 100, 0});
  EXPECT_EQ(round_share(all_the_same, 1 << 20, 2), (1U << 20U) / 64);
  EXPECT_EQ(round_share(by_turns, 1 << 30, 4), 1U << 28U);
  const Params apart[] = {{0, 10, 10, 1, 0}, {10, 20, 10, 1, 0}, {20, 30, 10, 1, 0}};
  EXPECT_EQ(round_share(apart, 100, 1), 100U);
  EXPECT_EQ(round_share(all_the_same, 10, 1), 1U);
}

TEST(ExchangePlan, PiecesAtTheEndsOfALargeFileAreTooSparse) {
  const Params ends[] = {{0, 100, 100, 1, 0}, {std::int64_t{1} << 44, (std::int64_t{1} << 44) + 100, 100, 1, 0}};
  const Domains rounds(0, (std::int64_t{1} << 44) + 100, 4096, 1, 4096);
  EXPECT_EQ(rounds.rounds(), (std::int64_t{1} << 32) + 1);
  EXPECT_TRUE(too_sparse(ends, rounds));
  const Params many[] = {{0, 1 << 20, 1 << 19, 4096, 0}};
  EXPECT_FALSE(too_sparse(many, Domains(0, 1 << 20, 4096, 1, 4096)));
  const Params one[] = {{0, 1 << 20, 1 << 20, 1, 0}};
  EXPECT_FALSE(too_sparse(one, Domains(0, 1 << 20, 1 << 17, 1, 1 << 17))) << "few rounds are never too many";
}

TEST(ExchangePlan, TheLastByteThatAFileCanHave) {
  const Domains last(INT64_MAX - 100, INT64_MAX, 4096, 2, 4096);
  EXPECT_EQ(last.round_end(last.rounds() - 1), INT64_MAX);
  EXPECT_EQ(last.strip_end(INT64_MAX - 1), INT64_MAX);
  const std::vector<Params> all_far(16, Params{0, INT64_MAX, 1000, 1000, 0});
  EXPECT_FALSE(worth_two_phases(costs_of(all_far)));
}

/// The accesses of `ranks` ranks that take turns: each has 100 pieces, and pieces of neighbouring ranks begin
/// `distance` bytes apart.
std::vector<Params> dealt(std::int64_t ranks, std::int64_t size, std::int64_t distance) {
  std::vector<Params> all;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t first = rank * distance;
    all.push_back({first, first + 99 * ranks * distance + size, 100 * size, 100, 0});
  }
  return all;
}

TEST(ExchangePlan, TwoPhasesAreForSmallPiecesThatOnlyAllRanksTogetherHaveDensely) {
  EXPECT_TRUE(worth_two_phases(costs_of(dealt(16, 64, 64))));
  EXPECT_TRUE(worth_two_phases(costs_of(dealt(8, 512, 512))));
  EXPECT_FALSE(worth_two_phases(costs_of(dealt(2, 64, 64)))) << "a rank's own pieces are near enough to each other";
  EXPECT_FALSE(worth_two_phases(costs_of(dealt(16, 4096, 4096)))) << "an exchange copies too much";
  EXPECT_FALSE(worth_two_phases(costs_of(dealt(16, 64, 65536)))) << "the servers have as many calls either way";
  const Params apart[] = {{0, 5000, 100, 1, 0}, {5000, 10'000, 100, 1, 0}};
  EXPECT_FALSE(worth_two_phases(costs_of(apart)));
  const Params nothing[] = {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
  EXPECT_FALSE(worth_two_phases(costs_of(nothing)));
}

TEST(ExchangePlan, PiecesOfOnePatternAreOneEntry) {
  std::vector<Pieces> list;
  for (const std::int64_t offset : {0, 100, 200, 300}) append(list, offset, 8);
  append(list, 390, 8);   // another distance
  append(list, 480, 16);  // another size
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].count, 4);
  EXPECT_EQ(list[0].stride, 100);
  EXPECT_EQ(list[1].offset, 390);
  EXPECT_EQ(list[2].bytes(), 16);
}

TEST(ExchangePlan, APatternEndsBeforeTheLastByteThatAFileCanHave) {
  constexpr std::int64_t kStep = std::int64_t{1} << 62U;
  std::vector<Pieces> list;
  for (const std::int64_t offset : {std::int64_t{0}, kStep, INT64_MAX - 8}) append(list, offset, 8);
  ASSERT_EQ(list.size(), 2U) << "the third piece of the pattern would be at 2^63";
  EXPECT_EQ(list[0].count, 2);
  EXPECT_EQ(list[1].offset, INT64_MAX - 8);
  const std::span<const Pieces> one[] = {list};
  EXPECT_EQ(union_of(one).size(), 3U);
}

/// A list of ascending pieces, and the bytes that it names.
std::vector<Pieces> random_list(std::mt19937& random, std::set<std::uint64_t>& bytes) {
  std::vector<Pieces> list;
  std::int64_t offset = 0;
  for (auto i = random() % 20; i > 0; --i) {
    offset += random() % 3 == 0 ? random() % 40 : random() % 2;
    const auto size = static_cast<std::int64_t>(1 + random() % 3);
    append(list, offset, size);
    for (std::int64_t b = 0; b < size; ++b) bytes.insert(static_cast<std::uint64_t>(offset + b));
    offset += size;
  }
  return list;
}

TEST(ExchangePlan, TheUnionOfAllRanksPiecesHasEachByteOnce) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::set<std::uint64_t> bytes;
    std::vector<std::vector<Pieces>> lists(random() % 5);
    for (auto& list : lists) list = random_list(random, bytes);
    const std::vector<std::span<const Pieces>> views(lists.begin(), lists.end());
    const std::vector<FileRange> ranges = union_of(views);
    std::vector<std::uint64_t> stream;  // the offset of each byte
    for (const FileRange& range : ranges) {
      if (!stream.empty()) ASSERT_GT(range.offset, stream.back() + 1) << "ranges ascend and do not touch";
      for (std::uint64_t b = 0; b < range.size; ++b) stream.push_back(range.offset + b);
    }
    ASSERT_EQ(stream, std::vector<std::uint64_t>(bytes.begin(), bytes.end())) << seed;
    for (const auto& list : lists) {
      RangeCursor cursor(ranges);
      for (const Pieces& pieces : list) {
        for (std::int64_t i = 0; i < pieces.count; ++i) {
          const auto offset = static_cast<std::uint64_t>(pieces.piece_offset(i));
          ASSERT_EQ(stream.at(cursor.place(offset)), offset) << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace spate::mpiio
