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

/// The facts about a stream that decide its path.
struct PathFacts {
  Direction direction = Direction::kRead;
  bool has_descriptor = false;           // the datafile has a descriptor whose ranges the network can send
  std::uint64_t first_bytes = 0;         // total of the extents of the stream's first message
  std::size_t first_pieces = 0;          // how many extents that message has
  bool one_run = false;                  // writes: the stream is one range of the datafile
  std::uint64_t datafile_bytes = 0;      // size of the datafile; for a write, its size afterwards
  std::uint32_t direct_alignment = 0;    // 0: the target has no direct access
  std::string_view direct_refusal = {};  // why the target has none, if direct_alignment is 0
  /// Why the p2p path is not possible. Empty: it is possible.
  std::string_view peer_refusal = "this server has no memory of a PCI device (flow.p2p_memory)";
  std::optional<bool> cached = {};  // whether the first bytes of a read are in the page cache; none: unknown
  bool unreadable = false;          // a short time ago the network could not read the datafile's file
  bool bypass_writer = false;       // a client may be writing the datafile itself now
  bool sealed = false;              // messages begin with a code over their data: the processor has to read these
};

struct PolicyOptions {
  /// Reads with a smaller average piece are gathered into buffers instead of being sent piece by piece. Bytes. Guess.
  std::uint64_t cached_piece_bytes = 16 * 1024;
  /// Datafiles of at least this size, bytes, should not fill the page cache: their data takes the direct path if the
  /// cache does not have it already.
  std::uint64_t direct_from_bytes = ~std::uint64_t{0};
  /// With a smaller average piece, bytes, the direct path costs more than it saves. Guess.
  std::uint64_t direct_piece_bytes = 128 * 1024;
  /// The path of requests that name none. kAutomatic: the policy chooses.
  wire::DataPath read_path = wire::DataPath::kAutomatic;
  wire::DataPath write_path = wire::DataPath::kAutomatic;

  wire::DataPath path_of(Direction direction) const { return direction == Direction::kRead ? read_path : write_path; }
};

struct PathChoice {
  wire::DataPath path = wire::DataPath::kBuffered;  // never kAutomatic or kBypass
  bool forced = false;
  /// The policy preferred `wanted`, kDirect or kPeerToPeer, but it is not possible. The caller counts and logs that.
  bool fell_back = false;
  std::string why;  // for people
  wire::DataPath wanted = wire::DataPath::kDirect;
};

/// A path that the request or the configuration names is taken, or refused with kNotSupported and a reason: it was
/// named to be measured, so another path would be a false answer. All servers share the configuration, so a
/// kPeerToPeer there is an exception: if p2p is not possible, the stream takes the direct path, or else the automatic
/// choice.
Result<PathChoice> choose_path(wire::DataPath asked, const PathFacts& facts, const PolicyOptions& options = {});

/// Whether the choice depends on PathFacts::cached, which costs a system call.
bool wants_cache_state(wire::DataPath asked, const PathFacts& facts, const PolicyOptions& options);

}  // namespace spate::flow
