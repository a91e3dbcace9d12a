// SPDX-License-Identifier: Apache-2.0
#include "mpiio/strategy_history.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace spate::mpiio {
namespace {

/// Estimates that differ by more than this factor are right about the cheaper way.
constexpr double kCertain = 6;
/// A strategy that took so much longer than the other one at its first trial is not tried again.
constexpr std::int64_t kMuchSlower = 4;
constexpr std::size_t kTrials = 2;

int digits(std::int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0))));
}
Strategy other(Strategy strategy) {
  return strategy == Strategy::kIndependent ? Strategy::kTwoPhase : Strategy::kIndependent;
}

}  // namespace

std::int64_t StrategyHistory::Tried::fastest() const {
  return *std::min_element(spent.begin(), spent.begin() + static_cast<std::ptrdiff_t>(std::min(count, kLately)));
}

std::int64_t StrategyHistory::take_spent() { return std::exchange(spent_, 0); }

void StrategyHistory::learn(std::span<const Params> all_params) {
  const std::optional<Strategy> strategy = std::exchange(last_, std::nullopt);
  std::int64_t slowest = 0;
  for (const Params& params : all_params) slowest = std::max(slowest, params.spent);
  if (!strategy || slowest == 0) return;
  Tried& of = tried(*strategy);
  of.spent[of.count++ % kLately] = slowest;
}

Strategy StrategyHistory::choose(std::span<const Params> all_params) {
  const Costs costs = costs_of(all_params);
  std::int64_t bytes = 0;
  std::int64_t pieces = 0;
  for (const Params& params : all_params) {
    bytes += params.bytes / static_cast<std::int64_t>(all_params.size());
    pieces += params.pieces / static_cast<std::int64_t>(all_params.size());
  }
  const Shape shape{digits(bytes), digits(pieces)};  // of a rank on average: a sum could overflow
  if (shape != shape_) tried_ = {};
  shape_ = shape;
  Strategy strategy = worth_two_phases(costs) ? Strategy::kTwoPhase : Strategy::kIndependent;
  const bool certain =
      !costs.interleaved || costs.alone > kCertain * costs.together || costs.together > kCertain * costs.alone;
  if (!certain) strategy = by_trial(strategy);
  last_ = strategy;
  return strategy;
}

Strategy StrategyHistory::by_trial(Strategy expected) {
  const Tried& first = tried(expected);
  const Tried& second = tried(other(expected));
  if (first.count == 0) return expected;
  if (second.count == 0) return other(expected);
  if (first.count < kTrials) return expected;
  if (second.count < kTrials && second.fastest() < kMuchSlower * first.fastest()) return other(expected);
  return second.fastest() < first.fastest() ? other(expected) : expected;
}

}  // namespace spate::mpiio
