// SPDX-License-Identifier: Apache-2.0
#include "mpiio/exchange_plan.h"

#include <algorithm>
#include <utility>

namespace spate::mpiio {

bool worth_two_phases(std::span<const Params> all_params) {
  std::int64_t bytes = 0;
  std::int64_t pieces = 0;
  double span = 0;  // a floating-point number, because the sum of all ranks may exceed an integer
  std::int64_t covered = INT64_MIN;
  bool interleaved = false;
  std::vector<Params> sorted;
  for (const Params& params : all_params) {
    if (params.bytes == 0) continue;
    bytes += params.bytes;
    pieces += params.pieces;
    span += static_cast<double>(params.end - params.first);
    sorted.push_back(params);
  }
  pieces = std::max<std::int64_t>(pieces, 1);
  if (bytes == 0 || bytes / pieces >= kLargePiece || span <= static_cast<double>(kNear * pieces)) return false;
  std::sort(sorted.begin(), sorted.end(), [](const Params& a, const Params& b) { return a.first < b.first; });
  for (const Params& params : sorted) {
    interleaved = interleaved || params.first < covered;
    covered = std::max(covered, params.end);
  }
  return interleaved || pieces > 4 * static_cast<std::int64_t>(sorted.size());
}

std::uint64_t round_share(std::span<const Params> all_params, std::uint64_t buffer_bytes, int aggregators) {
  constexpr std::uint64_t kMostInRound = std::uint64_t{1} << 30U;
  // How many times all ranks together want a byte, at the place where they want it most. Each rank's bytes count as if
  // they were spread evenly.
  std::vector<std::pair<std::int64_t, double>> changes;
  for (const Params& params : all_params) {
    if (params.bytes == 0) continue;
    const double density = static_cast<double>(params.bytes) / static_cast<double>(params.end - params.first);
    changes.emplace_back(params.first, density);
    changes.emplace_back(params.end, -density);
  }
  std::sort(changes.begin(), changes.end());
  double now = 0;
  double most = 1;
  for (const auto& [offset, change] : changes) most = std::max(most, now += change);
  const auto share = static_cast<std::uint64_t>(static_cast<double>(buffer_bytes) / most);
  return std::max<std::uint64_t>(1, std::min(share, kMostInRound / static_cast<std::uint64_t>(aggregators)));
}

Domains::Domains(std::int64_t first, std::int64_t end, std::uint64_t strip_bytes, int aggregators,
                 std::uint64_t buffer_bytes)
    : strip_(static_cast<std::int64_t>(strip_bytes)),
      aggregators_(aggregators),
      begin_(first / strip_ * strip_),
      end_(end) {
  const std::int64_t strips = std::max<std::int64_t>(1, static_cast<std::int64_t>(buffer_bytes) / strip_);
  stretch_ = strips * strip_ * aggregators_;
  rounds_ = (end_ - begin_ - 1) / stretch_ + 1;
}

std::int64_t Domains::round_end(std::int64_t round) const {
  return round + 1 >= rounds_ ? end_ : begin_ + (round + 1) * stretch_;
}

int Domains::owner(std::int64_t offset) const { return static_cast<int>(offset / strip_ % aggregators_); }

std::int64_t Domains::strip_end(std::int64_t offset) const {
  const std::int64_t begin = offset / strip_ * strip_;
  return begin > INT64_MAX - strip_ ? INT64_MAX : begin + strip_;
}

bool too_sparse(std::span<const Params> all_params, const Domains& domains) {
  constexpr std::int64_t kPiecesInRound = 16;  // guess: fewer pieces are not worth the messages of a round
  std::int64_t pieces = 0;
  for (const Params& params : all_params) pieces += params.pieces;
  return domains.rounds() > 1 + pieces / kPiecesInRound && domains.rounds() > 16;
}

Merged merge(std::vector<Asked> pieces) {
  std::erase_if(pieces, [](const Asked& piece) { return piece.size == 0; });
  std::sort(pieces.begin(), pieces.end(), [](const Asked& a, const Asked& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.place < b.place;
  });
  Merged merged;
  for (const Asked& piece : pieces) {
    const auto offset = static_cast<std::uint64_t>(piece.offset);
    if (merged.ranges.empty() || merged.ranges.back().offset + merged.ranges.back().size < offset)
      merged.ranges.push_back({offset, 0});
    Merged::Range& last = merged.ranges.back();
    const std::uint64_t begin = merged.bytes - last.size;  // begin of the range in the stream
    merged.copies.push_back({begin + offset - last.offset, piece.place, piece.size});
    const std::uint64_t size = std::max(last.size, offset + piece.size - last.offset);
    merged.bytes += size - last.size;
    last.size = size;
  }
  return merged;
}

}  // namespace spate::mpiio
