// SPDX-License-Identifier: Apache-2.0
// Flat: an MPI datatype as levels of repetition around a short list of pieces. Does not depend on MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace spate::mpiio {

/// The most pieces of one flattened type, which limits its memory (24 bytes each).
constexpr std::size_t kMaxPieces = std::size_t{1} << 22U;
/// The most levels of one flattened type. A file view adds one for its tiling, and a request to a server takes eight.
constexpr std::size_t kMaxLevels = 7;

/// `size` bytes at `offset`, counted from the place of the type; in memory `offset` may be negative. `start`: total
/// bytes of the pieces before this one.
struct Piece {
  std::int64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t start = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// `count` repetitions of the inner levels, `stride` bytes apart.
struct Level {
  std::uint64_t count = 1;
  std::int64_t stride = 0;
  friend bool operator==(const Level&, const Level&) = default;
};

/// An immutable value. Its *stream* is the bytes that the type names, in the order of its type map. Byte i of the
/// stream of a file type goes to or comes from byte i of the stream of the memory's type.
class Flat {
 public:
  /// An empty type with extent 0.
  Flat() = default;
  static Flat basic(std::uint64_t size);

  /// The builders have the names of MPI_Type_create_...; displacements and strides are in bytes. Nothing: the type
  /// needs more than kMaxPieces pieces.
  Flat resized(std::int64_t lb, std::int64_t extent) const;
  std::optional<Flat> hvector(std::uint64_t count, std::uint64_t block_length, std::int64_t stride) const;
  std::optional<Flat> hindexed(std::span<const std::uint64_t> block_lengths,
                               std::span<const std::int64_t> displacements) const;
  struct Member {
    const Flat* type = nullptr;  // outlives the call
    std::uint64_t count = 1;
    std::int64_t displacement = 0;
  };
  static std::optional<Flat> structure(std::span<const Member> members);
  struct Dimension {
    std::uint64_t size = 1;  // number of elements of the whole array
    std::uint64_t sub_size = 1;
    std::uint64_t start = 0;
  };
  /// `fastest_first`: the dimensions, beginning with the one that varies fastest.
  std::optional<Flat> subarray(std::span<const Dimension> fastest_first) const;
  enum class ArrayDistribution { kNone, kBlock, kCyclic };
  struct DistributedDimension {
    std::uint64_t size = 1;
    ArrayDistribution distribution = ArrayDistribution::kNone;
    std::uint64_t argument = 0;  // elements of a block; 0: MPI_DISTRIBUTE_DFLT_DARG
    std::uint64_t processes = 1;
    std::uint64_t place = 0;  // this process's coordinate
  };
  std::optional<Flat> darray(std::span<const DistributedDimension> fastest_first) const;

  /// Length of the stream, bytes.
  std::uint64_t size() const { return size_; }
  std::int64_t lb() const { return lb_; }
  std::int64_t extent() const { return extent_; }
  std::span<const Level> levels() const { return levels_; }
  std::span<const Piece> pieces() const { return pieces_; }
  /// Whether the type, repeated at its extent, names all bytes in order without a gap.
  bool dense() const;
  /// Whether the type, at offset 0, names ascending bytes from 0 on, as MPI demands of a file type. Its extent may be
  /// less than its span, as with HDF5 on Open MPI, where only one tile is used. A type without bytes ascends.
  bool ascends() const;
  /// From the lowest of the type's bytes at offset 0 to the end of the highest. Nothing: an offset exceeds 64 bits.
  struct TrueExtent {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    friend bool operator==(const TrueExtent&, const TrueExtent&) = default;
  };
  std::optional<TrueExtent> true_extent() const;
  /// The offset of byte `position` < size() of the stream.
  std::int64_t offset_at(std::uint64_t position) const;

 private:
  std::uint64_t unit() const { return pieces_.empty() ? 0 : pieces_.back().start + pieces_.back().size; }
  void prepend(Level level);
  bool expand_innermost();
  bool append_tile(const Flat& type, std::int64_t displacement);
  void add_piece(std::int64_t offset, std::uint64_t size);
  void set_bounds(std::int64_t lb, std::int64_t ub);
  std::optional<Flat> place_runs(std::span<const std::uint64_t> lengths, std::span<const std::int64_t> starts) const;

  std::vector<Level> levels_;  // the outermost level first
  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
  std::int64_t lb_ = 0;
  std::int64_t extent_ = 0;
};

/// Walks over the pieces of a type that is repeated without end at its extent. The walk covers `size` bytes of that
/// stream, from byte `first` on. Neighbouring pieces merge. `flat` outlives the walk and has bytes.
class Walk {
 public:
  Walk(const Flat& flat, std::int64_t base, std::uint64_t first, std::uint64_t size);
  struct Run {
    std::int64_t offset = 0;
    std::uint64_t size = 0;
  };
  /// The next run: at most `limit` (>= 1) bytes, which end at or before `end` in the file. Nothing: the walk has ended,
  /// or the next run begins at or beyond `end`.
  std::optional<Run> next(std::uint64_t limit = UINT64_MAX, std::int64_t end = INT64_MAX);
  /// The offset of the next run. Nothing: the walk has ended.
  std::optional<std::int64_t> peek();
  std::uint64_t left() const { return left_ + (pending_ ? pending_->size : 0); }

 private:
  std::optional<Run> raw();
  void turn();

  const Flat* flat_;                   // never null
  std::int64_t place_ = 0;             // offset of the current unit
  std::vector<std::uint64_t> digits_;  // current repetition of each level, the outermost first
  std::size_t piece_ = 0;
  std::uint64_t within_ = 0;  // bytes of the current piece that are done
  std::uint64_t left_ = 0;    // bytes that are not yet in pending_
  std::optional<Run> pending_;
};

/// How many units of the stream of `flat`, repeated from `base` on, begin before byte `offset` of the file. A unit has
/// `unit_bytes`, of which the type's size is a multiple. Only for types of files, in which the units' offsets ascend.
std::uint64_t stream_before(const Flat& flat, std::int64_t base, std::int64_t offset, std::uint64_t unit_bytes = 1);

}  // namespace spate::mpiio
