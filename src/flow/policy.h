// SPDX-License-Identifier: Apache-2.0
// Policy: which data path a stream takes (docs/architecture.md, "Data paths").
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "flow/counters.h"
#include "wire/io_messages.h"

namespace spate::flow {

/// What is known of a stream when its path is chosen.
struct PathFacts {
  Direction direction = Direction::kRead;
  bool has_descriptor = false;    // the datafile is a file of the kernel, or of something that sends file ranges
  std::uint64_t first_bytes = 0;  // of the extents of the stream's first message
  std::size_t first_pieces = 0;   // how many they are
};

struct PolicyOptions {
  /// Below this average piece, a read is gathered into buffers instead of being sent piece by piece, bytes. Guess.
  std::uint64_t cached_piece_bytes = 16 * 1024;
};

/// kBuffered or kCached. A path that was asked for by name is taken or refused with kNotSupported and a sentence that
/// says why: it was asked for to be measured, so another one would be a false answer.
Result<wire::DataPath> choose_path(wire::DataPath asked, const PathFacts& facts, const PolicyOptions& options = {});

}  // namespace spate::flow
