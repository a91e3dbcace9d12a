// SPDX-License-Identifier: Apache-2.0
// The work of `spate bench` on the file system. Every loop ends early when the stop flag is set.
#pragma once

#include <atomic>
#include <string>

#include "base/random.h"
#include "client/client.h"

namespace spate::tools {

enum class DataWork { kWrite, kRead, kRandomRead };

/// One thread's part of a file, moved once by requests of one size, several in flight.
struct DataPlan {
  DataWork work = DataWork::kWrite;
  std::uint64_t begin = 0;  // bytes; with `end`, this thread's part
  std::uint64_t end = 0;
  std::uint64_t request_bytes = 1U << 20U;
  std::uint64_t requests = 0;  // random reads: their number
  std::size_t depth = 4;
};
/// Moves it, and yields the bytes moved. Short reads are errors.
job::Task<Result<std::uint64_t>> move_data(client::File& file, DataPlan plan, const std::atomic<bool>& stop);

enum class NamesWork { kCreate, kStat, kUnlink };

/// Empty files "0".."files-1" of one folder, by several tasks at once.
struct NamesPlan {
  NamesWork work = NamesWork::kCreate;
  Handle folder;
  std::uint64_t files = 0;
  std::size_t tasks = 1;
};
/// Yields the number of operations.
job::Task<Result<std::uint64_t>> work_on_names(client::Client& client, NamesPlan plan, const std::atomic<bool>& stop);

}  // namespace spate::tools
