// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/collective.h"

#include <algorithm>
#include <vector>

namespace spate::mpiio {
namespace {

StrategyHistory& history_of(const CollectiveAccess& work) {
  File& file = work.file;
  auto& histories =
      work.communicator.thread() == Communicator::Thread::kLibrary ? file.histories_in_turn : file.histories;
  return histories[work.write ? 1 : 0];
}

Params params_of(const CollectiveAccess& work, const Failure& own) {
  const File& file = work.file;
  const Memory& memory = work.memory;
  Params params;
  params.spent = history_of(work).take_spent();
  params.error = own.error_class;
  if (own.failed() || memory.bytes == 0) return params;
  const auto range = range_of(file.view, work.first, memory.bytes);
  params.first = range ? range->begin : 0;  // checked before
  params.end = range ? range->end : 1;
  params.goes_back = in_order(file.view, work.first, memory.bytes) ? 0 : 1;
  params.bytes = static_cast<std::int64_t>(memory.bytes);
  params.pieces = 1;
  if (!file.view.flat->dense()) {
    std::uint64_t pieces = file.view.flat->pieces().size();
    for (const Level& level : file.view.flat->levels()) pieces *= level.count;
    params.pieces +=
        static_cast<std::int64_t>(memory.bytes / std::max<std::uint64_t>(file.view.flat->size() / pieces, 1));
  }
  return params;
}

std::vector<Params> params_of_all(const CollectiveAccess& work, const Params& own) {
  constexpr int kNumbers = sizeof(Params) / sizeof(std::int64_t);
  static_assert(sizeof(Params) == kNumbers * sizeof(std::int64_t));
  std::vector<Params> all(static_cast<std::size_t>(work.file.ranks));
  work.communicator.all_gather(&own, kNumbers, MPI_INT64_T, all.data());
  return all;
}

std::string named(const CollectiveAccess& work) { return (work.write ? "write " : "read ") + work.file.path; }

/// Each rank moves its own pieces, without two phases.
CollectiveResult move_alone(const CollectiveAccess& work) {
  const long moved = transfer(work.file, work.write, work.first, work.memory);
  return {moved, agree(work.file, work.communicator, failure_of(moved, named(work)))};
}

CollectiveResult two_phases(const CollectiveAccess& work, const std::vector<Params>& all_params) {
  const File& file = work.file;
  std::int64_t begin = INT64_MAX;
  std::int64_t end = 0;
  for (const Params& params : all_params) {
    if (params.bytes == 0) continue;
    begin = std::min(begin, params.first);
    end = std::max(end, params.end);
  }
  const int aggregators = static_cast<int>(file.aggregators.size());
  const std::uint64_t share = round_share(all_params, file.hints.cb_buffer_size, aggregators);
  // If a strip does not fit into a round, it is handled in parts.
  const std::uint64_t strip = std::min(std::max<std::uint64_t>(file.hints.striping_unit, 1), share);
  const Domains domains(begin, end, strip, aggregators, share);
  if (too_sparse(all_params, domains)) return move_alone(work);
  const Exchanged exchanged = move_in_two_phases(work, domains);
  const Failure own = failure_of(exchanged.outcome, named(work));
  CollectiveResult moved{static_cast<long>(work.memory.bytes), agree(file, work.communicator, own)};
  if (work.write || moved.failure.failed()) return moved;
  std::int64_t eof = exchanged.eof;
  work.communicator.all_reduce({&eof, 1}, MPI_MIN);
  if (eof != INT64_MAX) {
    const std::uint64_t there = stream_before(*file.view.flat, file.view.displacement, eof);
    moved.bytes = static_cast<long>(std::min(work.memory.bytes, there > work.first ? there - work.first : 0));
  }
  return moved;
}

}  // namespace

CollectiveResult transfer_collectively(const CollectiveAccess& work, const Failure& own) {
  const File& file = work.file;
  const std::vector<Params> all_params = params_of_all(work, params_of(work, own));
  StrategyHistory& history = history_of(work);
  history.learn(all_params);
  for (std::size_t rank = 0; rank < all_params.size(); ++rank) {
    if (own.failed()) return {0, own};
    if (all_params[rank].error != MPI_SUCCESS)
      return {0, {static_cast<int>(all_params[rank].error), "spate: wrong arguments on rank " + std::to_string(rank)}};
  }
  const auto any_of_all = [&](const auto& what) { return std::any_of(all_params.begin(), all_params.end(), what); };
  const auto can_together = !file.atomic && any_of_all([](const Params& params) { return params.bytes > 0; }) &&
                            !any_of_all([](const Params& params) { return params.goes_back != 0; });
  const Choice choice = work.write ? file.hints.cb_write : file.hints.cb_read;
  if (!can_together || choice == Choice::kDisable) return move_alone(work);
  if (choice == Choice::kEnable) return two_phases(work, all_params);
  const Strategy strategy = history.choose(all_params);
  const double begin = PMPI_Wtime();
  CollectiveResult moved = strategy == Strategy::kTwoPhase ? two_phases(work, all_params) : move_alone(work);
  if (moved.failure.failed()) return moved;  // it took less than others would
  history.keep(std::max<std::int64_t>(1, static_cast<std::int64_t>((PMPI_Wtime() - begin) * 1e9)));
  return moved;
}

}  // namespace spate::mpiio
