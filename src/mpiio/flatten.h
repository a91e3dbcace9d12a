// SPDX-License-Identifier: Apache-2.0
// Flat: an MPI datatype as levels of repetition around a short list of pieces. Pure: knows nothing of any MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace spate::mpiio {

/// Pieces that one flattened type may need: bounds its memory (24 bytes each).
constexpr std::size_t kMaxPieces = std::size_t{1} << 22U;
/// Levels of one flattened type. A file view adds one for its tiling; a request to a server takes eight.
constexpr std::size_t kMaxLevels = 7;

/// `size` bytes, `offset` bytes from the place where the type is laid (may be negative in memory). `start`: bytes of
/// the pieces before it.
struct Piece {
  std::int64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t start = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// `count` repetitions of what is inside, `stride` bytes apart.
struct Level {
  std::uint64_t count = 1;
  std::int64_t stride = 0;
  friend bool operator==(const Level&, const Level&) = default;
};

/// An immutable value. Its *stream* is the bytes that the type names, in the order of its type map: byte i of the
/// stream of a file type goes to or comes from byte i of the stream of the memory's type.
class Flat {
 public:
  /// No bytes, extent 0.
  Flat() = default;
  static Flat basic(std::uint64_t size);

  /// The builders are named for MPI_Type_create_...; displacements and strides in bytes. Nothing: more than kMaxPieces.
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
    std::uint64_t size = 1;  // of the whole array
    std::uint64_t sub_size = 1;
    std::uint64_t start = 0;
  };
  /// Dimensions from the one that varies fastest.
  std::optional<Flat> subarray(std::span<const Dimension> fastest_first) const;
  enum class Deal { kNone, kBlock, kCyclic };
  struct DealtDimension {
    std::uint64_t size = 1;
    Deal deal = Deal::kNone;
    std::uint64_t argument = 0;  // elements of a block; 0: MPI_DISTRIBUTE_DFLT_DARG
    std::uint64_t processes = 1;
    std::uint64_t place = 0;  // this process's coordinate
  };
  std::optional<Flat> darray(std::span<const DealtDimension> fastest_first) const;

  /// Bytes of the stream.
  std::uint64_t size() const { return size_; }
  std::int64_t lb() const { return lb_; }
  std::int64_t extent() const { return extent_; }
  std::span<const Level> levels() const { return levels_; }
  std::span<const Piece> pieces() const { return pieces_; }
  /// Repeated at its extent it is bytes without a gap, in order.
  bool dense() const;
  /// Laid at 0, each byte lies behind the one before it in the stream, none below 0: what MPI asks of a file type. Its
  /// extent may be less than what it spans, as HDF5's with Open MPI: then one tile is used. A type without bytes does.
  bool ascends() const;
  /// Where byte `position` < size() of the stream lies.
  std::int64_t offset_at(std::uint64_t position) const;

 private:
  std::uint64_t unit() const { return pieces_.empty() ? 0 : pieces_.back().start + pieces_.back().size; }
  void prepend(Level level);
  bool expand_innermost();
  bool append_tile(const Flat& type, std::int64_t displacement);
  void add_piece(std::int64_t offset, std::uint64_t size);
  void set_bounds(std::int64_t lb, std::int64_t ub);
  std::optional<Flat> place_runs(std::span<const std::uint64_t> lengths, std::span<const std::int64_t> starts) const;

  std::vector<Level> levels_;  // outermost first
  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
  std::int64_t lb_ = 0;
  std::int64_t extent_ = 0;
};

/// Walks the pieces of a type that is repeated at its extent without end, from byte `first` of that stream on for
/// `size` bytes. Neighbours merge. `flat` outlives the walk and has bytes.
class Walk {
 public:
  Walk(const Flat& flat, std::int64_t base, std::uint64_t first, std::uint64_t size);
  struct Run {
    std::int64_t offset = 0;
    std::uint64_t size = 0;
  };
  /// The next run, at most `limit` (>= 1) bytes of it, that ends no later than `end` in the file; nothing when all is
  /// walked or the next run begins at or beyond `end`.
  std::optional<Run> next(std::uint64_t limit = UINT64_MAX, std::int64_t end = INT64_MAX);
  /// Where the next run begins; nothing when all is walked.
  std::optional<std::int64_t> peek();
  std::uint64_t left() const { return left_ + (pending_ ? pending_->size : 0); }

 private:
  std::optional<Run> raw();
  void turn();

  const Flat& flat_;
  std::int64_t place_ = 0;             // of the unit
  std::vector<std::uint64_t> digits_;  // how far each level is, outermost first
  std::size_t piece_ = 0;
  std::uint64_t within_ = 0;  // bytes of the piece that are done
  std::uint64_t left_ = 0;    // not yet in pending_
  std::optional<Run> pending_;
};

/// Bytes of the stream of `flat`, repeated from `base` on, that lie before byte `offset` of the file. For file types:
/// their offsets ascend.
std::uint64_t stream_before(const Flat& flat, std::int64_t base, std::int64_t offset);

}  // namespace spate::mpiio
