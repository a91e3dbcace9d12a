// SPDX-License-Identifier: Apache-2.0
// Distribution: which slot holds which byte of a file. docs/adding-a-distribution.md says how to add one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "model/layout.h"

namespace spate {

/// A byte's place: the slot (its index in Layout::slots) and the offset in that slot's datafile.
struct Physical {
  std::uint32_t slot = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const Physical&, const Physical&) = default;
};

/// A function between logical offsets (in the file) and (slot, physical offset), bytes. Pure and immutable, so any
/// thread may call it. Every distribution promises the following, on which datatype/ relies:
///   - each logical byte lies in exactly one slot;
///   - in one slot, physical offsets ascend with logical ones and leave no gap: the i-th byte of the datafile is the
///     i-th byte of the file that the slot holds. So any contiguous logical range is one contiguous range of each
///     datafile (PVFS sec. 3.2, "I/O stream").
/// Logical offsets and sizes are 0..kMaxFileBytes; slots are below slot_count(). Each call is O(1) unless it says more.
class Distribution {
 public:
  virtual ~Distribution() = default;

  virtual std::size_t slot_count() const = 0;
  /// The place of the byte at `logical`.
  virtual Physical to_physical(std::uint64_t logical) const = 0;
  /// The logical offset of byte `physical` of the slot's datafile; kMaxFileBytes if no file has that byte. Any value of
  /// `physical` is allowed, also one that came from outside.
  virtual std::uint64_t to_logical(std::uint32_t slot, std::uint64_t physical) const = 0;
  /// How many bytes from `logical` on lie in the same slot without a byte of another slot between them: the rest of the
  /// strip. At least 1. The end of these bytes may lie beyond kMaxFileBytes.
  virtual std::uint64_t contiguous_bytes(std::uint64_t logical) const = 0;
  /// How many of the file's first `logical_size` bytes lie in the slot. This is the largest size of its datafile in a
  /// file of that size, and the size to which truncate cuts it. It is also the physical offset of the slot's first byte
  /// at or after `logical_size`, so physical_size(slot, end) - physical_size(slot, begin) is the slot's share of a
  /// range.
  virtual std::uint64_t physical_size(std::uint32_t slot, std::uint64_t logical_size) const = 0;
  /// If a range of the file moves by a multiple of this, its pieces in the datafiles keep their shape: each piece of
  /// one slot becomes one piece, of the same size, of one slot. So servers can copy between the two ranges without a
  /// client. At least 1.
  virtual std::uint64_t shift_bytes() const = 0;

  /// The file's size in bytes from datafile_sizes[slot_count()] bytes: one past the last byte that any datafile has.
  /// Sizes come from other machines; those that no file can have count as kMaxFileBytes. O(slots).
  std::uint64_t logical_size(std::span<const std::uint64_t> datafile_sizes) const;

  /// The first byte of `slot` at or after `logical`; kMaxFileBytes when there is none.
  std::uint64_t next_in_slot(std::uint32_t slot, std::uint64_t logical) const {
    return to_logical(slot, physical_size(slot, logical));
  }
};

}  // namespace spate
