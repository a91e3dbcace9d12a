// SPDX-License-Identifier: Apache-2.0
// LockRanges: the byte ranges of one file that one owner has locked. It splits and joins them as POSIX demands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spate {

/// Numbers are part of the wire format.
enum class LockMode : std::uint8_t { kNone = 0, kShared = 1, kExclusive = 2 };

/// The kind of a lock's owner. Numbers are part of the wire format.
enum class LockKind : std::uint8_t {
  kProcess = 1,   // fcntl's F_SETLK: of a process
  kOpenFile = 2,  // fcntl's F_OFD_SETLK: of an open file description
  kFlock = 3,     // flock: of an open file description, always the whole file
  kAppend = 4,    // the right to append: of a client
};

/// Whether two owners cannot hold these modes on the same byte.
constexpr bool conflict(LockMode a, LockMode b) {
  return a != LockMode::kNone && b != LockMode::kNone && (a == LockMode::kExclusive || b == LockMode::kExclusive);
}

/// The bytes first..last, both inclusive. kToEnd as `last`: to the end, however long the file becomes. A value.
struct LockRange {
  static constexpr std::uint64_t kToEnd = (std::uint64_t{1} << 63U) - 1;
  std::uint64_t first = 0;
  std::uint64_t last = kToEnd;
  bool valid() const { return first <= last && last <= kToEnd; }
  bool overlaps(const LockRange& other) const { return first <= other.last && other.first <= last; }
  friend bool operator==(const LockRange&, const LockRange&) = default;
};

struct HeldLock {
  LockRange range;
  LockMode mode = LockMode::kNone;
  friend bool operator==(const HeldLock&, const HeldLock&) = default;
};

/// A value. Its pieces are disjoint and sorted, and adjacent pieces differ in mode. Every function is O(pieces).
class LockRanges {
 public:
  /// Gives every byte of `range` (valid) this mode; kNone releases it. Adds at most two pieces.
  void set(LockRange range, LockMode mode);
  /// How many pieces there would be after set().
  std::size_t pieces_after(LockRange range, LockMode mode) const;
  /// The lowest piece that conflicts with another owner's lock of `mode` on `range`.
  std::optional<HeldLock> in_the_way_of(LockRange range, LockMode mode) const;
  /// Whether every byte of `range` is held in exactly this mode.
  bool covers(LockRange range, LockMode mode) const;

  const std::vector<HeldLock>& pieces() const { return pieces_; }
  bool empty() const { return pieces_.empty(); }

 private:
  std::vector<HeldLock>::const_iterator first_from(std::uint64_t byte) const;
  std::vector<HeldLock> pieces_;
};

}  // namespace spate
