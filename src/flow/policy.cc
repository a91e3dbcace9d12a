// SPDX-License-Identifier: Apache-2.0
#include "flow/policy.h"

namespace spate::flow {
namespace {

Result<wire::DataPath> named_cached(const PathFacts& facts) {
  if (facts.direction == Direction::kWrite) {
    return Error(Errc::kNotSupported,
                 "the cached path sends the page cache, so it is for reads: write with path automatic or buffered");
  }
  if (!facts.has_descriptor) {
    return Error(Errc::kNotSupported,
                 "this target's storage has no file to send from: read with path automatic or buffered");
  }
  return wire::DataPath::kCached;
}

wire::DataPath automatic(const PathFacts& facts, const PolicyOptions& options) {
  if (facts.direction == Direction::kWrite || !facts.has_descriptor) return wire::DataPath::kBuffered;
  // One piece a message costs no more than a buffer would, however small it is.
  const bool large = facts.first_pieces <= 1 || facts.first_bytes / facts.first_pieces >= options.cached_piece_bytes;
  return large ? wire::DataPath::kCached : wire::DataPath::kBuffered;
}

}  // namespace

Result<wire::DataPath> choose_path(wire::DataPath asked, const PathFacts& facts, const PolicyOptions& options) {
  switch (asked) {
    case wire::DataPath::kAutomatic: return automatic(facts, options);
    case wire::DataPath::kBuffered: return asked;
    case wire::DataPath::kCached: return named_cached(facts);
    case wire::DataPath::kDirect:
      return Error(Errc::kNotSupported,
                   "this server does not offer the direct path: use automatic, buffered or cached");
    case wire::DataPath::kBypass:
      return Error(Errc::kNotSupported, "this server grants no bypass leases: use automatic, buffered or cached");
    case wire::DataPath::kPeerToPeer:
      return Error(Errc::kNotSupported, "this server does not offer the p2p path: use automatic, buffered or cached");
  }
  return Error(Errc::kInvalidArgument, "data path " + std::to_string(static_cast<unsigned>(asked)) + " is not known");
}

}  // namespace spate::flow
