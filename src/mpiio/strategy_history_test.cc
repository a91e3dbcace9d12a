// SPDX-License-Identifier: Apache-2.0
#include "mpiio/strategy_history.h"

#include "base/expect.h"

namespace spate::mpiio {
namespace {

using enum Strategy;

/// Pieces dealt to the ranks in turn: piece 0 of rank 0, of rank 1, and so on.
std::vector<Params> dealt(int ranks, std::int64_t piece, std::int64_t pieces) {
  std::vector<Params> all(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Params& params = all[rank];
    params.first = static_cast<std::int64_t>(rank) * piece;
    params.bytes = piece * pieces;
    params.pieces = pieces;
    params.end = params.first + (pieces - 1) * ranks * piece + piece;
  }
  return all;
}

/// The ranks of a program, which make one access after the other.
class Ranks {
 public:
  explicit Ranks(std::vector<Params> all) : all_(std::move(all)), histories_(all_.size()) {}

  /// Makes an access that takes `alone` or `together` ns on the last rank, and less on the others.
  Strategy access(std::int64_t alone, std::int64_t together) {
    for (std::size_t rank = 0; rank < all_.size(); ++rank) all_[rank].spent = histories_[rank].take_spent();
    std::optional<Strategy> all;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      histories_[rank].learn(all_);
      const Strategy own = histories_[rank].choose(all_);
      EXPECT_EQ(own, all.value_or(own)) << "rank " << rank << " would wait for ever for the others";
      all = own;
      const std::int64_t took = own == kIndependent ? alone : together;
      histories_[rank].keep(rank + 1 == all_.size() ? took : 1);
    }
    return *all;
  }
  void change(std::vector<Params> all) { all_ = std::move(all); }

 private:
  std::vector<Params> all_;
  std::vector<StrategyHistory> histories_;
};

TEST(StrategyHistory, TriesBothStrategiesTwiceAndKeepsTheFasterOne) {
  Ranks ranks(dealt(4, 1024, 1024));  // the estimate is for kIndependent, and not certain
  EXPECT_EQ(ranks.access(200, 150), kIndependent);
  EXPECT_EQ(ranks.access(200, 150), kTwoPhase);
  EXPECT_EQ(ranks.access(200, 150), kIndependent);
  EXPECT_EQ(ranks.access(200, 150), kTwoPhase);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ranks.access(200, 150), kTwoPhase);
}

TEST(StrategyHistory, TriesAMuchSlowerStrategyOnce) {
  Ranks ranks(dealt(4, 1024, 1024));
  EXPECT_EQ(ranks.access(200, 2000), kIndependent);
  EXPECT_EQ(ranks.access(200, 2000), kTwoPhase);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ranks.access(200, 2000), kIndependent);
}

TEST(StrategyHistory, BelievesAnEstimateThatIsCertain) {
  for (const auto& [pieces, strategy] :
       {std::pair(dealt(128, 32, 1024), kTwoPhase), std::pair(dealt(1, 64, 64), kIndependent)}) {
    Ranks ranks(pieces);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(ranks.access(i, i), strategy);
  }
}

TEST(StrategyHistory, ChangesWhenItsStrategyBecomesSlower) {
  Ranks ranks(dealt(4, 1024, 1024));
  for (int i = 0; i < 8; ++i) (void)ranks.access(200, 150);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ranks.access(200, 900), kTwoPhase) << "a slow access may be an accident";
  EXPECT_EQ(ranks.access(200, 900), kIndependent);
}

TEST(StrategyHistory, StartsAgainWithAccessesOfAnotherSize) {
  Ranks ranks(dealt(4, 1024, 1024));
  for (int i = 0; i < 8; ++i) (void)ranks.access(200, 150);
  ranks.change(dealt(4, 1024, 8192));
  EXPECT_EQ(ranks.access(900, 1500), kIndependent);
  EXPECT_EQ(ranks.access(900, 1500), kTwoPhase);
  EXPECT_EQ(ranks.access(900, 1500), kIndependent);
}

TEST(StrategyHistory, CountsNoAccessThatFailed) {
  StrategyHistory history;
  const std::vector<Params> all = dealt(4, 1024, 1024);
  for (int i = 0; i < 4; ++i) {
    history.learn(all);  // nobody has kept a time
    EXPECT_EQ(history.choose(all), kIndependent);
  }
}

}  // namespace
}  // namespace spate::mpiio
