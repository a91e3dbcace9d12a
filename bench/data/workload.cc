// SPDX-License-Identifier: Apache-2.0
#include "data/workload.h"

#include "base/random.h"
#include "job/gate.h"

namespace spate::bench {
namespace {

/// State that the lanes of one stream share.
struct Moving {
  client::File& file;
  const Stream& stream;
  std::uint64_t next = 0;
  Result<void> first;
};

job::Task<void> move_lane(Moving& moving, MutableByteView buffer) {
  while (moving.next < moving.stream.total_bytes && moving.first) {
    const std::uint64_t offset = moving.next;
    moving.next += buffer.size();
    if (moving.stream.write) {
      auto written = co_await moving.file.write(offset, buffer);
      if (!written && moving.first) moving.first = std::move(written);
      continue;
    }
    auto got = co_await moving.file.read(offset, buffer);
    if (!moving.first) continue;
    if (!got) {
      moving.first = std::move(got).error();
    } else if (*got != buffer.size()) {
      moving.first = Error(Errc::kIoError, "the file is shorter than it was written");
    }
  }
}

struct Reading {
  client::File& file;
  const RandomReads& reads;
  std::vector<double>& latency_us;
  SeededRandom random;
  std::uint64_t left = 0;
  Result<void> first;
};

job::Task<void> read_lane(job::Executor& executor, Reading& reading, MutableByteView buffer) {
  const std::uint64_t places = reading.reads.file_bytes / buffer.size();
  while (reading.left > 0 && reading.first) {
    --reading.left;
    const std::uint64_t offset = reading.random.below(places) * buffer.size();
    const MonoTime begin = executor.now();
    auto got = co_await reading.file.read(offset, buffer);
    reading.latency_us.push_back(std::chrono::duration<double, std::micro>(executor.now() - begin).count());
    if (!got && reading.first) reading.first = std::move(got).error();
  }
}

}  // namespace

job::Task<Result<void>> run_stream(job::Executor& executor, client::File& file, const Stream& stream,
                                   MutableByteView memory) {
  Moving moving{file, stream, 0, {}};
  job::Gate gate(executor);
  for (std::size_t i = 0; i < stream.in_flight; ++i) {
    job::spawn(gate, move_lane(moving, memory.subspan(i * stream.request_bytes, stream.request_bytes)));
  }
  co_await gate.close();
  co_return std::move(moving.first);
}

job::Task<Result<void>> run_random(job::Executor& executor, client::File& file, const RandomReads& reads,
                                   std::vector<double>& latency_us) {
  Reading reading{file, reads, latency_us, SeededRandom(reads.requests), reads.requests, {}};
  Buffer memory(reads.in_flight * reads.request_bytes, Buffer::kPageAlignment);
  job::Gate gate(executor);
  for (std::size_t i = 0; i < reads.in_flight; ++i) {
    job::spawn(gate, read_lane(executor, reading, memory.view().subspan(i * reads.request_bytes, reads.request_bytes)));
  }
  co_await gate.close();
  co_return std::move(reading.first);
}

}  // namespace spate::bench
