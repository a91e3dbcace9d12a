// SPDX-License-Identifier: Apache-2.0
// Counters: how many bytes each data path has moved, and how many of them the processor has copied.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "metrics/metrics.h"
#include "wire/io_messages.h"

namespace spate::flow {

enum class Direction : std::uint8_t { kRead = 0, kWrite = 1 };

/// What is counted as a path of its own: streams in a request or reply (kInline), and the bulk paths.
enum class Lane : std::uint8_t { kInline = 0, kBuffered = 1, kCached = 2 };

/// `spate_flow_bytes_total{path,direction}`: payload bytes moved. `spate_flow_copied_bytes_total{path,direction}`:
/// bytes that the processor copied on the way, between page cache, buffers and sockets, as the path does it over TCP.
class Counters {
 public:
  explicit Counters(metrics::Registry& registry);

  void moved(Lane lane, Direction direction, std::uint64_t bytes) {
    Pair& pair = pair_of(lane, direction);
    pair.bytes.add(bytes);
    pair.copied.add(bytes * copies(lane));
  }
  std::uint64_t bytes(Lane lane, Direction direction) const { return pair_of(lane, direction).bytes.value(); }
  std::uint64_t copied(Lane lane, Direction direction) const { return pair_of(lane, direction).copied.value(); }

 private:
  struct Pair {
    Pair(metrics::Registry& registry, const metrics::Labels& labels);
    metrics::Counter bytes;
    metrics::Counter copied;
  };
  /// cached: the page cache itself is sent. buffered and inline: page cache to buffer and buffer to socket, or back.
  static std::uint64_t copies(Lane lane) { return lane == Lane::kCached ? 0 : 2; }
  Pair& pair_of(Lane lane, Direction direction) const {
    return *pairs_[static_cast<std::size_t>(lane) * 2 + static_cast<std::size_t>(direction)];
  }

  std::array<std::unique_ptr<Pair>, 6> pairs_;
};

}  // namespace spate::flow
