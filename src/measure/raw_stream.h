// SPDX-License-Identifier: Apache-2.0
// What a striped file's client could do at best: large requests to raw peers, several in flight.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "measure/raw_peers.h"

namespace spate::measure {

struct StreamPlan {
  enum class Direction { kRead, kWrite };
  Direction direction = Direction::kRead;
  std::uint64_t total_bytes = 0;              // a multiple of request_bytes
  std::uint64_t request_bytes = 1ULL << 20U;  // one strip: request i goes to peer i % peers; <= RawPeers::kMaxBytes
  std::size_t in_flight = 4;
};

/// Moves it all, in order of the file, once. `memory`: in_flight buffers of request_bytes, which take turns.
Result<void> run_stream(const RawPeers& peers, const StreamPlan& plan, MutableByteView memory);

/// How many requests a second: `requests` in all, `in_flight` at once, spread over the peers by turns, each of
/// `request_bytes` (at least sizeof(RawRequest) + 8) and answered by `reply_bytes`.
struct RatePlan {
  RawRequest::Op op = RawRequest::Op::kAnswer;  // or kRead: at random places of the first `file_bytes` of the file
  std::uint64_t requests = 0;
  std::uint64_t request_bytes = 256;
  std::uint64_t reply_bytes = 256;
  std::uint64_t file_bytes = 0;
  std::size_t in_flight = 1;
};
struct Rate {
  double seconds = 0;
  std::vector<double> latency_us;  // of each request, when one is in flight; else empty
};
Result<Rate> run_requests(const RawPeers& peers, const RatePlan& plan);

}  // namespace spate::measure
