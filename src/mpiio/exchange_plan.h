// SPDX-License-Identifier: Apache-2.0
// The plan of a collective access in two phases: which rank (aggregator) reads or writes which bytes of the file, and
// in which round. It calls no MPI.
// Source: R. Thakur, W. Gropp, E. Lusk: Data Sieving and Collective I/O in ROMIO, sec. 4 (docs/references.md, ROMIO).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spate::mpiio {

/// The bytes that one rank wants to read or write, as far as the decision needs them.
struct Params {
  std::int64_t first = 0;  // the first byte in the file, if bytes > 0
  std::int64_t end = 0;    // the offset after the last byte
  std::int64_t bytes = 0;
  std::int64_t pieces = 0;  // an estimate
  std::int64_t error = 0;   // an MPI error class if this rank's arguments are wrong
};

/// If a rank's pieces begin this close to each other on average, a server moves them with a few large calls. Requesting
/// them directly then took a half to a third of the time of two phases, with pieces of 8 B to 1 KiB on 2 to 8 ranks
/// (bench/run mpi, 2026-11).
constexpr std::int64_t kNear = 1536;
/// Pieces that are further apart than kNear cost the server one call each, about 0.5 us (bench/run pieces). If they are
/// smaller than this, two phases should cost less. Guess: a measurement would need more ranks than there were.
constexpr std::int64_t kLargePiece = 256;

/// Whether two phases pay. They do if pieces are small and far apart, and the ranks' pieces interleave or are many.
bool worth_two_phases(std::span<const Params> all_params);

/// How many bytes of the file an aggregator may handle in a round, so that all ranks together send to it, or request
/// from it, about `buffer_bytes`. It is less where ranks want the same bytes, and never more than an exchange can count
/// with ints.
std::uint64_t round_share(std::span<const Params> all_params, std::uint64_t buffer_bytes, int aggregators);

/// Deals strips of the file to the aggregators in turn. If the numbers of aggregators and targets have a common
/// divisor, each aggregator then talks to few servers. A round covers a stretch of the file. Each aggregator handles at
/// most `buffer_bytes` of the stretch, or one strip if that is more.
class Domains {
 public:
  /// All ranks pass the same values. strip_bytes >= 1, aggregators >= 1, first < end.
  Domains(std::int64_t first, std::int64_t end, std::uint64_t strip_bytes, int aggregators, std::uint64_t buffer_bytes);

  std::int64_t rounds() const { return rounds_; }
  /// The offset after the last byte of a round.
  std::int64_t round_end(std::int64_t round) const;
  /// The aggregator of the byte at `offset`, 0 .. aggregators - 1.
  int owner(std::int64_t offset) const;
  /// The offset after the last byte of the strip of `offset`.
  std::int64_t strip_end(std::int64_t offset) const;

 private:
  std::int64_t strip_;
  std::int64_t aggregators_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t stretch_;
  std::int64_t rounds_;
};

/// Whether the ranks' pieces lie so far apart that most rounds would have few of them. Then each rank moves its own
/// pieces, even if a hint asks for two phases.
bool too_sparse(std::span<const Params> all_params, const Domains& domains);

/// A piece of the file that a rank sent to an aggregator, or requested from it.
struct Asked {
  std::int64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t place = 0;  // place of its first byte in the buffer that gathers the ranks' bytes
};

/// The accesses of an aggregator: ranges in ascending order without overlap, and for each piece its place in their
/// stream.
struct Merged {
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  struct Copy {
    std::uint64_t stream = 0;  // offset in the ranges' stream
    std::uint64_t place = 0;   // offset in the gathered bytes
    std::uint64_t size = 0;
  };
  std::vector<Range> ranges;
  std::vector<Copy> copies;  // pieces that overlap have a copy each
  std::uint64_t bytes = 0;   // total length of the ranges
};
/// Sorts `pieces` and drops empty ones.
Merged merge(std::vector<Asked> pieces);

}  // namespace spate::mpiio
