// SPDX-License-Identifier: Apache-2.0
// The work of the client in the data bench.
#pragma once

#include <string>
#include <vector>

#include "assembly/client_process.h"

namespace spate::bench {

/// A whole file is moved once, by requests of one size. Several are in flight, each with a buffer of its own.
struct Stream {
  bool write = false;
  std::uint64_t total_bytes = 0;
  std::uint64_t request_bytes = 1ULL << 20U;
  std::size_t in_flight = 4;
};
/// `memory`: in_flight * request_bytes bytes, for the buffers.
job::Task<Result<void>> run_stream(job::Executor& executor, client::File& file, const Stream& stream,
                                   MutableByteView memory);

/// Reads at random offsets, several in flight.
struct RandomReads {
  std::uint64_t file_bytes = 0;
  std::uint64_t request_bytes = 4096;
  std::uint64_t requests = 0;
  std::size_t in_flight = 1;
};
/// Appends each request's time to `latency_us`.
job::Task<Result<void>> run_random(job::Executor& executor, client::File& file, const RandomReads& reads,
                                   std::vector<double>& latency_us);

}  // namespace spate::bench
