// SPDX-License-Identifier: Apache-2.0
// The segments of an operation, and the position of a transfer in them.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bmi/network.h"

namespace spate::bmi {

/// Pieces of memory for one sendmsg or recvmsg.
struct Pieces {
  static constexpr std::size_t kMax = 64;
  std::array<iovec, kMax> list;  // left uninitialised on purpose; filled up to `count`
  std::size_t count = 0;
  std::uint64_t bytes = 0;

  Pieces() {}  // NOLINT(modernize-use-equals-default): `= default` would clear the list in value initialisation
  bool full() const { return count == kMax; }
  void add(const std::byte* data, std::uint64_t size) {
    list[count++] = {const_cast<std::byte*>(data), static_cast<std::size_t>(size)};
    bytes += size;
  }
};

/// A copy of an operation's segment array; keeps its memory from operation to operation. view() is valid until the next
/// assign() or release(), and while the store stays where it is: short lists lie in the store itself. Not thread-safe.
class SegmentStore {
 public:
  void assign(SegmentList list) {
    count_ = list.size();
    if (count_ == 1) {
      few_[0] = list[0];  // the usual case
    } else {
      assign_several(list);
    }
  }
  SegmentList view() const { return count_ <= kInline ? SegmentList(few_.data(), count_) : SegmentList(many_); }
  /// Gives back the memory of a long list.
  void release();

 private:
  void assign_several(SegmentList list);

  static constexpr std::size_t kInline = 2;
  std::size_t count_ = 0;
  std::array<Segment, kInline> few_;
  std::vector<Segment> many_;
};

/// A position in a segment list. The list outlives it; a copy is a position of its own. segment(), offset() and
/// left_in_segment() are about the segment at the position, so call them only while done() is false. Segments of 0
/// bytes are skipped. Not thread-safe.
class SegmentCursor {
 public:
  SegmentCursor() = default;
  explicit SegmentCursor(SegmentList list) : list_(list) { skip_empty(); }

  bool done() const { return index_ == list_.size(); }
  bool at_file() const { return !done() && list_[index_].memory == nullptr; }
  const Segment& segment() const { return list_[index_]; }
  /// Bytes of segment() before the position.
  std::uint64_t offset() const { return at_; }
  std::uint64_t left_in_segment() const { return list_[index_].size - at_; }

  /// Adds the memory from here on, up to a file segment, `limit` bytes or a full `pieces`; does not move.
  /// Returns the bytes added.
  std::uint64_t gather(Pieces& pieces, std::uint64_t limit) const;
  /// The bytes from here to the end. It stops counting at `most`, so a larger rest yields at least `most`.
  std::uint64_t rest(std::uint64_t most) const;
  /// Moves on by `bytes`, which must not exceed the rest.
  void advance(std::uint64_t bytes);
  /// Copies `bytes` of `from` into the memory from here on (receives: memory only) and moves on.
  void copy_in(const std::byte* from, std::uint64_t bytes);

 private:
  void skip_empty() {
    while (index_ < list_.size() && list_[index_].size == at_) {
      ++index_;
      at_ = 0;
    }
  }

  SegmentList list_;
  std::size_t index_ = 0;
  std::uint64_t at_ = 0;
};

}  // namespace spate::bmi
