// SPDX-License-Identifier: Apache-2.0
#include "flow/policy.h"

namespace spate::flow {
namespace {

using wire::DataPath;

Error refused(std::string why) { return Error(Errc::kNotSupported, std::move(why)); }

std::uint64_t average_piece(const PathFacts& facts) {
  return facts.first_pieces <= 1 ? facts.first_bytes : facts.first_bytes / facts.first_pieces;
}

constexpr std::string_view kUnreadable = "the file could not be read a short time ago while it was sent";
constexpr std::string_view kSealed =
    "file data are sealed on this connection (auth.protect), so they go through memory";

Result<PathChoice> named_cached(const PathFacts& facts) {
  if (facts.sealed) return refused(std::string(kSealed) + ": read with path automatic, buffered or direct");
  if (facts.direction == Direction::kWrite) {
    return refused("the cached path sends the page cache, so it is for reads: write with path automatic or buffered");
  }
  if (!facts.has_descriptor) {
    return refused("this target's storage has no file to send from: read with path automatic or buffered");
  }
  if (facts.unreadable) return refused(std::string(kUnreadable) + ": read with path automatic or buffered");
  return PathChoice{DataPath::kCached, true, false, "asked for by name"};
}

Result<PathChoice> named_direct(const PathFacts& facts) {
  if (facts.direct_alignment == 0) {
    return refused("no direct path: " + std::string(facts.direct_refusal) + "; use automatic, buffered or cached");
  }
  if (facts.direction == Direction::kWrite && !facts.one_run) {
    return refused("the direct path writes one range of a datafile at a time: write with path automatic or buffered");
  }
  return PathChoice{DataPath::kDirect, true, false, "asked for by name"};
}

/// The path p2p, for a request that names it.
Result<PathChoice> named_peer(const PathFacts& facts) {
  const std::string_view refusal = facts.sealed ? kSealed : facts.peer_refusal;
  if (!refusal.empty()) {
    return refused("no p2p path: " + std::string(refusal) + "; use automatic, buffered, cached or direct");
  }
  SPATE_TRY(PathChoice choice, named_direct(facts));
  choice.path = DataPath::kPeerToPeer;
  return choice;
}

Result<PathChoice> named(DataPath path, const PathFacts& facts) {
  switch (path) {
    case DataPath::kBuffered: return PathChoice{path, true, false, "asked for by name"};
    case DataPath::kCached: return named_cached(facts);
    case DataPath::kDirect: return named_direct(facts);
    case DataPath::kBypass:
      return refused("bypass is no path of a request: the client reads and writes by itself, under a lease");
    case DataPath::kPeerToPeer: return named_peer(facts);
    case DataPath::kAutomatic: break;
  }
  return Error(Errc::kInvalidArgument, "data path " + std::to_string(static_cast<unsigned>(path)) + " is not known");
}

/// Whether the datafile is too large for the page cache, and its pieces large enough for a device request each.
bool would_go_direct(const PathFacts& facts, const PolicyOptions& options) {
  if (facts.datafile_bytes < options.direct_from_bytes || average_piece(facts) < options.direct_piece_bytes)
    return false;
  return facts.direction == Direction::kRead ? facts.has_descriptor : facts.one_run;
}

PathChoice automatic(const PathFacts& facts, const PolicyOptions& options) {
  PathChoice choice;
  if (would_go_direct(facts, options)) {
    if (facts.direct_alignment > 0 && !facts.bypass_writer && !facts.cached.value_or(false)) {
      choice.path = DataPath::kDirect;
      choice.why = "the datafile is too large to be kept in the page cache";
      return choice;
    }
    choice.fell_back = facts.direct_alignment == 0;
    choice.why = choice.fell_back      ? "direct would suit it, but " + std::string(facts.direct_refusal)
                 : facts.bypass_writer ? "direct would suit it, but a client writes the datafile itself"
                                       : "large, but in the page cache already";
  }
  // If each message is one piece, however small, sending it from the cache costs no more than through a buffer.
  const bool large = facts.first_pieces <= 1 || average_piece(facts) >= options.cached_piece_bytes;
  const bool can_send_file = facts.has_descriptor && !facts.sealed && !facts.unreadable;
  const bool cached = facts.direction == Direction::kRead && can_send_file && large;
  choice.path = cached ? DataPath::kCached : DataPath::kBuffered;
  if (choice.why.empty()) {
    choice.why = cached                                 ? "the page cache is sent as it is"
                 : facts.direction == Direction::kWrite ? "writes go through the page cache"
                 : facts.sealed                         ? std::string(kSealed)
                 : !facts.has_descriptor                ? "the storage has no file to send from"
                 : facts.unreadable                     ? std::string(kUnreadable)
                                                        : "the pieces are too small to be sent one by one";
  }
  return choice;
}

/// For a server whose configuration names p2p: takes p2p where it is possible, else the next best path.
PathChoice peer_or_next_best(const PathFacts& facts, const PolicyOptions& options) {
  const auto best = named_peer(facts);
  if (best) {
    PathChoice choice = *best;
    choice.forced = false;
    choice.why = "flow.read_path or write_path says p2p";
    return choice;
  }
  const auto next = named_direct(facts);
  PathChoice choice = next && !facts.bypass_writer ? *next : automatic(facts, options);
  choice.forced = false;
  choice.fell_back = true;
  choice.wanted = DataPath::kPeerToPeer;
  choice.why = best.error().context();
  return choice;
}

}  // namespace

bool wants_cache_state(DataPath asked, const PathFacts& facts, const PolicyOptions& options) {
  const bool is_read = facts.direction == Direction::kRead;
  if (asked != DataPath::kAutomatic || !is_read || options.read_path != DataPath::kAutomatic) return false;
  return facts.direct_alignment > 0 && would_go_direct(facts, options);
}

Result<PathChoice> choose_path(DataPath asked, const PathFacts& facts, const PolicyOptions& options) {
  const DataPath configured = options.path_of(facts.direction);
  const DataPath wanted = asked == DataPath::kAutomatic ? configured : asked;
  if (wanted == DataPath::kAutomatic) return automatic(facts, options);
  if (wanted == DataPath::kPeerToPeer && asked == DataPath::kAutomatic) return peer_or_next_best(facts, options);
  return named(wanted, facts);
}

}  // namespace spate::flow
