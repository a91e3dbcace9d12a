// SPDX-License-Identifier: Apache-2.0
// Policy: which data path a stream takes (docs/data-paths.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "flow/counters.h"
#include "wire/io_messages.h"

namespace spate::flow {

/// What is known of a stream when its path is chosen.
struct PathFacts {
  Direction direction = Direction::kRead;
  bool has_descriptor = false;           // the datafile is a file of the kernel, or of something that sends file ranges
  std::uint64_t first_bytes = 0;         // of the extents of the stream's first message
  std::size_t first_pieces = 0;          // how many they are
  bool one_run = false;                  // writes: the stream is one range of the datafile
  std::uint64_t datafile_bytes = 0;      // its size; of a write, after it
  std::uint32_t direct_alignment = 0;    // 0: the target has no direct access,
  std::string_view direct_refusal = {};  // because
  /// Why the p2p path cannot be had; empty: it can.
  std::string_view peer_refusal = "this server has no memory of a PCI device (flow.p2p_memory)";
  std::optional<bool> cached = {};  // what is read first is in the page cache; none: nobody knows
  bool bypass_writer = false;       // a client may be writing the datafile itself now
};

struct PolicyOptions {
  /// Below this average piece, a read is gathered into buffers instead of being sent piece by piece, bytes. Guess.
  std::uint64_t cached_piece_bytes = 16 * 1024;
  /// Datafiles from this size on are not worth a place in the page cache: what is not there goes by the direct path,
  /// bytes.
  std::uint64_t direct_from_bytes = ~std::uint64_t{0};
  /// Below this average piece the direct path costs more than it spares, bytes. Guess.
  std::uint64_t direct_piece_bytes = 128 * 1024;
  /// What requests without a wish of their own are given; kAutomatic: what suits them.
  wire::DataPath read_path = wire::DataPath::kAutomatic;
  wire::DataPath write_path = wire::DataPath::kAutomatic;

  wire::DataPath path_of(Direction direction) const { return direction == Direction::kRead ? read_path : write_path; }
};

struct PathChoice {
  wire::DataPath path = wire::DataPath::kBuffered;  // never kAutomatic or kBypass
  bool forced = false;
  /// The policy wanted `wanted`, kDirect or kPeerToPeer, and it cannot be had: to be counted and logged.
  bool fell_back = false;
  std::string why;  // for people
  wire::DataPath wanted = wire::DataPath::kDirect;
};

/// A path that was asked for by name, by the request or by the configuration, is taken or refused with kNotSupported
/// and a sentence that says why: it was asked for to be measured, so another one would be a false answer. But
/// kPeerToPeer in the configuration, which is one for all servers, means: where it can be had, else the next best one,
/// which is direct.
Result<PathChoice> choose_path(wire::DataPath asked, const PathFacts& facts, const PolicyOptions& options = {});

/// Whether the choice depends on PathFacts::cached: to find it out costs a system call.
bool wants_cache_state(wire::DataPath asked, const PathFacts& facts, const PolicyOptions& options);

/// "buffered", as in the configuration, the metrics and the answers of `spate explain`.
std::string_view path_name(wire::DataPath path);

}  // namespace spate::flow
