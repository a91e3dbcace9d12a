// SPDX-License-Identifier: Apache-2.0
#include "mpiio/exchange_plan.h"

#include <algorithm>
#include <utility>

namespace spate::mpiio {

namespace {

// Nanoseconds of a piece, fitted to what 2 to 16 ranks on one machine took with pieces of 64 B to 16 KiB
// (bench/results, collective accesses of 2026-11-28). An exchange copies each byte twice more, and lists each piece; a
// gap costs the servers the more the larger it is, until each piece is a call of its own.
constexpr double kByteAlone = 0.7;
constexpr double kByteTogether = 1.55;
constexpr double kPieceTogether = 80;
/// How many times cheaper two phases must be: an exchange takes longer than here where other programs use the
/// processors, too.
constexpr double kMargin = 1.5;
double gap_cost(double bytes) { return std::min(1000.0, bytes / 3); }

}  // namespace

Costs costs_of(std::span<const Params> all_params) {
  double bytes = 0;  // floating-point numbers, because a sum of all ranks may exceed an integer
  double pieces = 0;
  double span = 0;
  std::int64_t first = INT64_MAX;
  std::int64_t end = 0;
  std::int64_t covered = INT64_MIN;
  Costs costs;
  std::vector<Params> sorted;
  for (const Params& params : all_params) {
    if (params.bytes == 0) continue;
    bytes += static_cast<double>(params.bytes);
    pieces += static_cast<double>(params.pieces);
    span += static_cast<double>(params.end - params.first);
    first = std::min(first, params.first);
    end = std::max(end, params.end);
    sorted.push_back(params);
  }
  if (bytes == 0) return costs;
  pieces = std::max(pieces, 1.0);
  std::sort(sorted.begin(), sorted.end(), [](const Params& a, const Params& b) { return a.first < b.first; });
  for (const Params& params : sorted) {
    costs.interleaved = costs.interleaved || params.first < covered;
    covered = std::max(covered, params.end);
  }
  const double gap_alone = std::max(0.0, span - bytes) / pieces;
  const double gap_together = std::max(0.0, static_cast<double>(end - first) - bytes) / pieces;
  costs.alone = kByteAlone * bytes / pieces + gap_cost(gap_alone);
  costs.together = kPieceTogether + kByteTogether * bytes / pieces + gap_cost(gap_together);
  return costs;
}

bool worth_two_phases(const Costs& costs) { return costs.interleaved && kMargin * costs.together < costs.alone; }

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

void append(std::vector<Pieces>& list, std::int64_t offset, std::int64_t size) {
  if (!list.empty() && list.back().size == size) {
    Pieces& last = list.back();
    // The offset after the last one, as the pattern has it, may be beyond what an integer holds.
    const std::int64_t step = offset - last.piece_offset(last.count - 1);
    if (last.count == 1) last.stride = step;
    if (step == last.stride) {
      ++last.count;
      return;
    }
  }
  list.push_back({offset, size, size, 1});
}

namespace {

/// The pieces of one rank's list, one by one.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const Pieces> list) : next_(list.data()), end_(list.data() + list.size()) { load(); }
  bool ended() const { return next_ == end_; }
  std::int64_t offset() const { return offset_; }
  std::int64_t size() const { return next_->size; }
  void advance() {
    if (--left_ > 0) {
      offset_ += next_->stride;
    } else {
      ++next_;
      load();
    }
  }

 private:
  void load() {
    if (ended()) return;
    offset_ = next_->offset;
    left_ = next_->count;
  }

  const Pieces* next_;
  const Pieces* end_;
  std::int64_t offset_ = 0;
  std::int64_t left_ = 0;
};

bool later(const PieceCursor& a, const PieceCursor& b) { return a.offset() > b.offset(); }

}  // namespace

std::vector<FileRange> union_of(std::span<const std::span<const Pieces>> lists) {
  std::vector<PieceCursor> heap;  // the cursor with the least offset is first
  for (const auto& list : lists) {
    if (!list.empty()) heap.emplace_back(list);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  std::vector<FileRange> ranges;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    PieceCursor& first = heap.back();
    // The other cursors stay where they are as long as this one's pieces begin before theirs.
    const std::int64_t turn = heap.size() > 1 ? heap.front().offset() : INT64_MAX;
    do {
      const auto offset = static_cast<std::uint64_t>(first.offset());
      const auto end = offset + static_cast<std::uint64_t>(first.size());
      if (ranges.empty() || ranges.back().offset + ranges.back().size < offset) ranges.push_back({offset, 0});
      ranges.back().size = std::max(ranges.back().size, end - ranges.back().offset);
      first.advance();
    } while (!first.ended() && first.offset() <= turn);
    if (first.ended()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  return ranges;
}

}  // namespace spate::mpiio
