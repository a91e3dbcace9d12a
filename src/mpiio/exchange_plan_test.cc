// SPDX-License-Identifier: Apache-2.0
#include "mpiio/exchange_plan.h"

#include <map>
#include <random>

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
  EXPECT_TRUE(worth_two_phases(all_far));
}

TEST(ExchangePlan, TwoPhasesAreForSmallPiecesThatLieFarApart) {
  const Params small[] = {{0, 100'000, 500, 10, 0}, {50, 100'050, 500, 10, 0}};
  EXPECT_TRUE(worth_two_phases(small));
  const Params near[] = {{0, 1000, 500, 10, 0}, {50, 1050, 500, 10, 0}};
  EXPECT_FALSE(worth_two_phases(near));
  const Params large[] = {{0, 1 << 20, 1 << 19, 10, 0}, {4096, 1 << 21, 1 << 19, 10, 0}};
  EXPECT_FALSE(worth_two_phases(large));
  const Params apart[] = {{0, 5000, 100, 1, 0}, {5000, 10'000, 100, 1, 0}};
  EXPECT_FALSE(worth_two_phases(apart));
  const Params nothing[] = {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
  EXPECT_FALSE(worth_two_phases(nothing));
}

TEST(ExchangePlan, MergedPiecesCarryEachByteToItsPlace) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    std::vector<Asked> pieces;
    std::map<std::int64_t, std::vector<std::uint64_t>> places;  // the places of each byte
    std::uint64_t place = 0;
    for (auto i = random() % 20; i > 0; --i) {
      const Asked piece{static_cast<std::int64_t>(random() % 100), random() % 8, place};
      for (std::uint64_t b = 0; b < piece.size; ++b)
        places[piece.offset + static_cast<std::int64_t>(b)].push_back(place + b);
      place += piece.size;
      pieces.push_back(piece);
    }
    const Merged merged = merge(pieces);
    std::vector<std::int64_t> stream;  // the offset of each byte
    std::uint64_t end = 0;
    for (const Merged::Range& range : merged.ranges) {
      if (!stream.empty()) ASSERT_GT(range.offset, end) << "ranges ascend and do not touch";
      for (std::uint64_t b = 0; b < range.size; ++b) stream.push_back(static_cast<std::int64_t>(range.offset + b));
      end = range.offset + range.size;
    }
    ASSERT_EQ(stream.size(), merged.bytes);
    ASSERT_EQ(stream.size(), places.size());
    std::map<std::int64_t, std::vector<std::uint64_t>> copied;
    for (const Merged::Copy& copy : merged.copies) {
      for (std::uint64_t b = 0; b < copy.size; ++b) copied[stream.at(copy.stream + b)].push_back(copy.place + b);
    }
    for (auto& [offset, list] : copied) std::sort(list.begin(), list.end());
    ASSERT_EQ(copied, places) << seed;
  }
}

}  // namespace
}  // namespace spate::mpiio
