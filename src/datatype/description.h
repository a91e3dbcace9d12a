// SPDX-License-Identifier: Apache-2.0
// Description: the bytes of a file that a request names, in order. On the wire: docs/wire.md, "Description".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/codec.h"
#include "base/result.h"
#include "model/extent.h"
#include "model/layout.h"

namespace spate::datatype {

constexpr std::size_t kMaxListPieces = 16384;
constexpr std::size_t kMaxLevels = 8;
/// The most bytes that one description may name.
constexpr std::uint64_t kMaxTotalBytes = 1ULL << 40U;
/// The most blocks of a description in a request. This bounds the server's work for one request; see request_bytes().
constexpr std::uint64_t kMaxRequestBlocks = 1ULL << 20U;

/// `count` repetitions of the inner level, each `stride` bytes after the one before.
struct Level {
  std::uint64_t count = 1;
  std::uint64_t stride = 0;
  friend bool operator==(const Level&, const Level&) = default;
};

enum class DescriptionKind : std::uint8_t { kContiguous = 1, kList = 2, kStrided = 3 };

/// An immutable value: a sequence of file bytes, the *stream*, whose byte i goes to or comes from byte i of the
/// request's memory. It is sent in this form and never expanded (PVFS sec. 3.3, "partitioned-file interface",
/// generalised: PVFS's (offset, gsize, stride) is one Level). Pieces are in the given order. They may overlap (a read
/// yields such a byte twice), but check_disjoint() (measure.h) refuses that for writes, since servers write pieces in
/// any order.
///
/// Builders bring every description into one canonical form, so that equal shapes compare equal: they drop pieces of
/// size 0, merge neighbours in the file, drop levels of count 1 or without a gap, and make a single piece kContiguous.
/// All offsets and sizes are bytes. Builders fail with kInvalidArgument (shape out of range, more than kMaxTotalBytes)
/// or kFileTooBig (a byte at or beyond kMaxFileBytes).
class Description {
 public:
  /// No bytes.
  Description() = default;
  static Result<Description> contiguous(std::uint64_t offset, std::uint64_t size);
  /// At most kMaxListPieces, before merging.
  static Result<Description> list(std::span<const Extent> pieces);
  /// Blocks of `block_bytes`, the first at `offset`; levels[0] is the outermost of at most kMaxLevels, each count >= 1.
  static Result<Description> strided(std::uint64_t offset, std::uint64_t block_bytes, std::span<const Level> levels);
  /// As strided(), with the stream cut to `size` bytes from byte `first` on. Only the window counts for kMaxTotalBytes:
  /// the pattern may be as large as a file. MPI-IO's file view is a pattern, and an access to it is a window.
  static Result<Description> strided_window(std::uint64_t offset, std::uint64_t block_bytes,
                                            std::span<const Level> levels, Extent window);
  /// `size` bytes of this description's stream from byte `first` on. kInvalidArgument: the stream has fewer.
  Result<Description> window(std::uint64_t first, std::uint64_t size) const;

  DescriptionKind kind() const;
  std::uint64_t total_bytes() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Whether the pieces ascend in the file without overlap. (For strided ones: each level's stride is at least the
  /// extent that it repeats; interleaved levels count as unordered.)
  bool ordered() const { return ordered_; }
  /// The number of blocks or pieces that the stream touches, before neighbours are merged.
  std::uint64_t blocks() const;
  /// How many bytes of the stream from `first` on may be sent as one description. All of them, or fewer if they have
  /// more than kMaxRequestBlocks blocks, or if a list has more than `max_pieces` (at least 1) pieces. At least 1 for
  /// first < total_bytes(). A client splits a larger request by window(first, this).
  std::uint64_t request_bytes(std::uint64_t first, std::size_t max_pieces = kMaxListPieces) const;

  friend bool operator==(const Description&, const Description&) = default;

  // The parts of the description, for cursors and the codec.
  /// kContiguous: the first byte. kStrided: the first byte of the pattern.
  std::uint64_t offset() const { return offset_; }
  /// kStrided: size of one block of the pattern. kContiguous: size of all.
  std::uint64_t block_bytes() const { return block_bytes_; }
  /// kStrided: where the stream begins in the pattern's stream. Otherwise 0.
  std::uint64_t first() const { return first_; }
  std::span<const Level> levels() const { return {levels_.data(), level_count_}; }
  std::span<const Extent> pieces() const { return pieces_; }

 private:
  void cut(std::uint64_t first, std::uint64_t size);
  void set_contiguous(std::uint64_t offset, std::uint64_t size);
  bool levels_nest() const;

  std::uint64_t offset_ = 0;
  std::uint64_t block_bytes_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t size_ = 0;
  std::size_t level_count_ = 0;
  std::array<Level, kMaxLevels> levels_{};
  std::vector<Extent> pieces_;  // kList only: at least two
  bool ordered_ = true;
};

/// One piece of a list.
constexpr std::size_t kEncodedPieceBytes = 16;
/// docs/wire.md, "Description". blocks() must be <= kMaxRequestBlocks, or the receiver refuses it.
void encode(Encoder& out, const Description& description);
/// Fails the decoder on a value out of range. Allocates no more bytes than the input has.
Description decode_description(Decoder& in);

}  // namespace spate::datatype
