// SPDX-License-Identifier: Apache-2.0
// The best that a client of a striped file can do: large requests to raw peers, several in flight.
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

/// Moves all bytes once, in the order of the file. `memory`: in_flight buffers of request_bytes, used in turn.
Result<void> run_stream(const RawPeers& peers, const StreamPlan& plan, MutableByteView memory);

/// Measures requests per second: `requests` in all, `in_flight` at once, sent to the peers in turn. Each has
/// `request_bytes` (at least sizeof(RawRequest) + 8) and gets `reply_bytes`.
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
