// SPDX-License-Identifier: Apache-2.0
// Counters: how many bytes each data path has moved, and how many the processor has copied for that.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "metrics/metrics.h"
#include "wire/data_path.h"

namespace spate::flow {

enum class Direction : std::uint8_t { kRead = 0, kWrite = 1 };

/// The paths that are counted apart: streams in a request or reply (kInline), and the bulk paths. kBypass counts what
/// clients report to have read and written by themselves under leases, once they return the leases. The numbers are
/// those of wire::DataPath, in which 0 names no path.
enum class Lane : std::uint8_t { kInline = 0, kBuffered = 1, kCached = 2, kDirect = 3, kBypass = 4, kPeer = 5 };

/// The lane of a bulk path; kInline for kAutomatic.
constexpr Lane lane_of(wire::DataPath path) { return static_cast<Lane>(path); }

/// `spate_flow_bytes_total{path,direction}`: payload bytes moved. `spate_flow_copied_bytes_total{path,direction}`:
/// bytes that the processor copied for that, between page cache, buffers and sockets, as the path does it over TCP.
/// `spate_flow_fallbacks_total{path,direction}`: how often the policy or a stream wanted this path and had to take
/// another one. `spate_flow_registered_bytes_total{direction}`: whole blocks that the device moved to or from memory
/// that was registered with the ring.
class Counters {
 public:
  explicit Counters(metrics::Registry& registry);

  void moved(Lane lane, Direction direction, std::uint64_t bytes) {
    Pair& pair = pair_of(lane, direction);
    pair.bytes.add(bytes);
    pair.copied.add(bytes * copies(lane));
  }
  /// Counts bytes that were copied once more than this path usually copies them.
  void copied_again(Lane lane, Direction direction, std::uint64_t bytes) { pair_of(lane, direction).copied.add(bytes); }
  /// Counts that `wanted` was not possible and another path was taken. (A path that a request names is refused
  /// instead.)
  void fell_back(Lane wanted, Direction direction) { pair_of(wanted, direction).fallbacks.add(); }
  /// Counts those bytes of the direct path that moved to or from registered memory.
  void registered(Direction direction, std::uint64_t bytes) {
    registered_[static_cast<std::size_t>(direction)]->add(bytes);
  }
  std::uint64_t registered(Direction direction) const {
    return registered_[static_cast<std::size_t>(direction)]->value();
  }
  std::uint64_t fallbacks(Lane wanted, Direction direction) const {
    return pair_of(wanted, direction).fallbacks.value();
  }
  std::uint64_t bytes(Lane lane, Direction direction) const { return pair_of(lane, direction).bytes.value(); }
  std::uint64_t copied(Lane lane, Direction direction) const { return pair_of(lane, direction).copied.value(); }

 private:
  struct Pair {
    Pair(metrics::Registry& registry, const metrics::Labels& labels);
    metrics::Counter bytes;
    metrics::Counter copied;
    metrics::Counter fallbacks;
  };
  /// cached: the page cache itself is sent. direct: buffer to socket, or back; the device reads and writes the buffer.
  /// p2p: the same with a buffer in another device's memory; main memory only has the socket's copy. bypass: nothing on
  /// the server. buffered and inline: page cache to buffer and buffer to socket, or back.
  static std::uint64_t copies(Lane lane) {
    if (lane == Lane::kCached || lane == Lane::kBypass) return 0;
    return lane == Lane::kDirect || lane == Lane::kPeer ? 1 : 2;
  }
  Pair& pair_of(Lane lane, Direction direction) const {
    return *pairs_[static_cast<std::size_t>(lane) * 2 + static_cast<std::size_t>(direction)];
  }

  std::array<std::unique_ptr<Pair>, 2 * wire::kDataPathNames.size()> pairs_;
  std::array<std::unique_ptr<metrics::Counter>, 2> registered_;
};

}  // namespace spate::flow
