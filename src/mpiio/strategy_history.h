// SPDX-License-Identifier: Apache-2.0
// StrategyHistory: chooses between independent requests and two phases by how long earlier accesses took. It
// calls no MPI.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "mpiio/exchange_plan.h"

namespace spate::mpiio {

/// How a collective access is made.
enum class Strategy : std::uint8_t {
  kIndependent,  // each rank moves its own pieces
  kTwoPhase,     // aggregators move the pieces of all ranks
};

/// The history of the collective reads, or of the writes, of one open file. An estimate (costs_of()) chooses the
/// strategy of the first access. If the estimate is not certain, the second access uses the other strategy. Each
/// strategy is tried twice, but one that is much slower than expected only once. From then on an access uses the
/// strategy whose fastest recent access was faster. The history begins anew when accesses, or their pieces, become much
/// larger or smaller.
///
/// All ranks must give the same values in the same order, so that all choose the same strategy. Use for each access:
/// take_spent() -> learn() -> choose() -> the access -> keep(). The last three may be left out. Not thread-safe.
class StrategyHistory {
 public:
  /// Notes how long the last access took: as long as on its slowest rank. `all_params`: what take_spent() returned on
  /// each rank.
  void learn(std::span<const Params> all_params);
  Strategy choose(std::span<const Params> all_params);
  /// How long the access took on this rank, ns > 0.
  void keep(std::int64_t spent) { spent_ = spent; }
  /// Returns the time that keep() got, for Params::spent, and forgets it. Returns 0 if keep() was not called since.
  std::int64_t take_spent();

 private:
  static constexpr std::size_t kLately = 4;
  struct Tried {
    std::array<std::int64_t, kLately> spent{};  // a ring
    std::size_t count = 0;
    std::int64_t fastest() const;
  };
  struct Shape {
    int bytes = 0;   // how many binary digits the number has that a rank moves on average
    int pieces = 0;  // the same
    bool operator==(const Shape&) const = default;
  };
  Tried& tried(Strategy strategy) { return tried_[static_cast<std::size_t>(strategy)]; }
  Strategy by_trial(Strategy expected);

  std::array<Tried, 2> tried_;
  Shape shape_;
  std::optional<Strategy> last_;  // of the access that learn() hears about next
  std::int64_t spent_ = 0;
};

}  // namespace spate::mpiio
