// SPDX-License-Identifier: Apache-2.0
// The plan of a collective access in two phases: which rank (aggregator) reads or writes which bytes of the file, and
// in which round. Pure.
// Source: R. Thakur, W. Gropp, E. Lusk: Data Sieving and Collective I/O in ROMIO, sec. 4 (docs/references.md, ROMIO).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spate::mpiio {

/// What one rank wants, for the decision.
struct Params {
  std::int64_t first = 0;  // byte of the file; bytes == 0: nothing
  std::int64_t end = 0;    // behind the last byte
  std::int64_t bytes = 0;
  std::int64_t pieces = 0;  // about
  std::int64_t error = 0;   // an MPI error class: this rank's arguments are wrong
};

/// A rank's pieces that begin this near to each other on average are moved by a server with a few large calls: asking
/// for them directly cost half to a third of two phases with pieces of 8 B to 1 KiB on 2 to 8 ranks. bench/run mpi,
/// 2026-11.
constexpr std::int64_t kNear = 1536;
/// Pieces further apart cost the server a call each, some 0.5 us (bench/run pieces). Below this many bytes two phases
/// should cost less. Guess: it takes more ranks than could be measured.
constexpr std::int64_t kLargePiece = 256;

/// Whether two phases are worth it: pieces are small and far apart, and the ranks' lie between each other's or are
/// many.
bool worth_two_phases(std::span<const Params> all_params);

/// Bytes of the file that an aggregator may have in a round, so that what all ranks send it in one, or ask of it, is
/// about `buffer_bytes`: less where ranks want the same bytes. At most as much as an exchange can count (with ints).
std::uint64_t round_share(std::span<const Params> all_params, std::uint64_t buffer_bytes, int aggregators);

/// Strips of the file are dealt to the aggregators in turn, so that each talks to few servers when their number and
/// the targets' have a common divisor. A round covers a stretch of the file of which each aggregator has at most
/// `buffer_bytes` (at least one strip).
class Domains {
 public:
  /// All ranks give the same. strip_bytes >= 1, aggregators >= 1, first < end.
  Domains(std::int64_t first, std::int64_t end, std::uint64_t strip_bytes, int aggregators, std::uint64_t buffer_bytes);

  int rounds() const { return rounds_; }
  /// Behind the last byte of a round.
  std::int64_t round_end(int round) const;
  /// The aggregator of the byte at `offset`, 0 .. aggregators - 1.
  int owner(std::int64_t offset) const;
  /// Behind the last byte of the strip that `offset` is in.
  std::int64_t strip_end(std::int64_t offset) const;

 private:
  std::int64_t strip_;
  std::int64_t aggregators_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t stretch_;
  int rounds_;
};

/// A piece of the file that a rank sent to an aggregator, or asked it for.
struct Asked {
  std::int64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t place = 0;  // of its first byte, wherever the ranks' bytes are gathered
};

/// What an aggregator reads or writes: ranges that ascend without overlap, and for each piece where it is in their
/// stream.
struct Merged {
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  struct Copy {
    std::uint64_t stream = 0;  // byte of the ranges' stream
    std::uint64_t place = 0;   // byte of the gathered bytes
    std::uint64_t size = 0;
  };
  std::vector<Range> ranges;
  std::vector<Copy> copies;  // of pieces that overlap, each has all of its own
  std::uint64_t bytes = 0;   // of the ranges
};
/// Sorts `pieces`. Empty ones go.
Merged merge(std::vector<Asked> pieces);

}  // namespace spate::mpiio
