// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/collective.h"

#include <algorithm>
#include <vector>

#include "mpiio/back/two_phases.h"

namespace spate::mpiio {
namespace {

Params params_of(const File& file, std::uint64_t first, const Memory& memory, const Failure& own) {
  Params params;
  params.error = own.error_class;
  if (own.failed() || memory.bytes == 0) return params;
  const auto range = range_of(file.view, first, memory.bytes);
  params.first = range ? range->begin : 0;  // checked before
  params.end = range ? range->end : 1;
  params.goes_back = in_order(file.view, first, memory.bytes) ? 0 : 1;
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

std::vector<Params> params_of_all(const File& file, const Params& own) {
  constexpr int kNumbers = sizeof(Params) / sizeof(std::int64_t);
  static_assert(sizeof(Params) == kNumbers * sizeof(std::int64_t));
  std::vector<Params> all(static_cast<std::size_t>(file.ranks));
  PMPI_Allgather(&own, kNumbers, MPI_INT64_T, all.data(), kNumbers, MPI_INT64_T, file.comm);
  return all;
}

/// Each rank moves its own pieces, without two phases.
Moved move_alone(File& file, bool write, std::uint64_t first, const Memory& memory) {
  const long moved = transfer(file, write, first, memory);
  return {moved, agree(file, failure_of(moved, (write ? "write " : "read ") + file.path))};
}

Moved two_phases(File& file, bool write, std::uint64_t first, const Memory& memory,
                 const std::vector<Params>& all_params) {
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
  if (too_sparse(all_params, domains)) return move_alone(file, write, first, memory);
  const Exchanged exchanged = move_in_two_phases(file, write, first, memory, domains);
  const Failure own = failure_of(exchanged.outcome, (write ? "write " : "read ") + file.path);
  Moved moved{static_cast<long>(memory.bytes), agree(file, own)};
  if (!write && !moved.failure.failed()) {
    std::int64_t eof = exchanged.eof;
    PMPI_Allreduce(MPI_IN_PLACE, &eof, 1, MPI_INT64_T, MPI_MIN, file.comm);
    if (eof != INT64_MAX) {
      const std::uint64_t there = stream_before(*file.view.flat, file.view.displacement, eof);
      moved.bytes = static_cast<long>(std::min(memory.bytes, there > first ? there - first : 0));
    }
  }
  return moved;
}

}  // namespace

Moved transfer_together(File& file, bool write, std::uint64_t first, const Memory& memory, const Failure& own) {
  const std::vector<Params> all_params = params_of_all(file, params_of(file, first, memory, own));
  for (std::size_t rank = 0; rank < all_params.size(); ++rank) {
    if (own.failed()) return {0, own};
    if (all_params[rank].error != MPI_SUCCESS)
      return {0, {static_cast<int>(all_params[rank].error), "spate: wrong arguments on rank " + std::to_string(rank)}};
  }
  const auto any_of_all = [&](const auto& what) { return std::any_of(all_params.begin(), all_params.end(), what); };
  const Choice choice = write ? file.hints.cb_write : file.hints.cb_read;
  bool together = choice == Choice::kEnable || (choice == Choice::kAutomatic && worth_two_phases(all_params));
  together = together && !file.atomic && any_of_all([](const Params& params) { return params.bytes > 0; }) &&
             !any_of_all([](const Params& params) { return params.goes_back != 0; });
  if (together) return two_phases(file, write, first, memory, all_params);
  return move_alone(file, write, first, memory);
}

}  // namespace spate::mpiio
