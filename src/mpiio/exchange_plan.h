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
  std::int64_t pieces = 0;     // an estimate
  std::int64_t error = 0;      // an MPI error class if this rank's arguments are wrong
  std::int64_t goes_back = 0;  // 1: the bytes do not ascend, so the phases' rounds cannot walk over them
  std::int64_t spent = 0;      // ns that the rank's last access took; 0: not known
};

/// An estimate of how long a collective access takes in each of its two ways, in ns for each piece.
struct Costs {
  double alone = 0;          // requests of each rank for its own pieces
  double together = 0;       // two phases
  bool interleaved = false;  // the ranks' pieces lie between each other; without that two phases never pay
};
Costs costs_of(std::span<const Params> all_params);
/// Whether two phases are expected to cost less: if the ranks' pieces interleave, are small, and are far apart in the
/// view of one rank but close to those of the others.
bool worth_two_phases(const Costs& costs);

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

/// Pieces of the file, of the same size and at the same distance from each other, that a rank sends to an aggregator or
/// requests from it. Ranks exchange lists of these as numbers of 8 bytes.
struct Pieces {
  std::int64_t offset = 0;  // of the first piece
  std::int64_t size = 0;    // of one piece, > 0
  std::int64_t stride = 0;  // from the begin of a piece to that of the next one, >= size
  std::int64_t count = 1;

  std::int64_t bytes() const { return size * count; }
  std::int64_t piece_offset(std::int64_t index) const { return offset + index * stride; }
};
/// Appends a piece, which begins at or after the end of the last one. A piece that continues the pattern of the last
/// entry makes no entry of its own.
void append(std::vector<Pieces>& list, std::int64_t offset, std::int64_t size);

/// A range of the file.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};
/// The ranges that an aggregator reads or writes: the union of the pieces of all ranks, in ascending order. They do not
/// touch each other. `lists`: one of each rank, ascending.
std::vector<FileRange> union_of(std::span<const std::span<const Pieces>> lists);

/// Maps pieces to the stream of `ranges`, which is their bytes one after another.
class RangeCursor {
 public:
  /// `ranges` outlive the cursor.
  explicit RangeCursor(std::span<const FileRange> ranges) : range_(ranges.data()) {}
  /// Where the byte at `offset`, which a range has, is in the stream. Offsets do not descend from call to call.
  std::uint64_t place(std::uint64_t offset) {
    while (offset - range_->offset >= range_->size) {
      before_ += range_->size;
      ++range_;
    }
    return before_ + (offset - range_->offset);
  }

 private:
  const FileRange* range_;
  std::uint64_t before_ = 0;  // bytes of the ranges before *range_
};

}  // namespace spate::mpiio
