// SPDX-License-Identifier: Apache-2.0
// Arenas: the memory of mem_alloc, which peers may map for reading, and this side's view of a peer's arenas.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "bmi/module.h"
#include "bmi/protocol/op.h"
#include "bmi/shm/frame.h"
#include "bmi/shm/memfd.h"

namespace spate::bmi::shm {

/// The arenas of one module: shared memory that mem_alloc() takes pieces from. Arenas are made when needed and last as
/// long as the pool; peers that have mapped one keep its memory. Not thread-safe: the module's lock guards it.
class ArenaPool {
 public:
  /// `arena_bytes`: size of an arena, unless one allocation needs more. Pages cost memory once they are touched.
  explicit ArenaPool(std::uint64_t arena_bytes) : arena_bytes_(arena_bytes) {}

  /// Page-aligned memory from the oldest arena with room, first fit. Empty: there is no shared memory, or 64 arenas are
  /// full. O(free pieces).
  MutableByteView allocate(std::size_t size);
  /// Frees memory that allocate() returned. Its pages go back to the machine.
  void free(MutableByteView memory);

  /// Sets `extents` to the places of the segments. False, with `extents` undefined, unless all are in arenas.
  bool locate(SegmentList segments, std::vector<Extent>& extents) const;
  /// A read-only descriptor for a peer. Empty if it cannot be made; this arena is then not shared.
  const UniqueFd& read_only(std::uint32_t arena) const { return arenas_[arena]->read_only; }
  std::uint64_t size(std::uint32_t arena) const { return arenas_[arena]->mapping.view().size(); }

 private:
  struct Arena {
    UniqueFd read_only;
    UniqueFd memory;
    Mapping mapping;
    std::map<std::uint64_t, std::uint64_t> free;  // offset and size of free pieces; neighbours are merged
  };
  static constexpr std::size_t kMaxArenas = 64;

  MutableByteView take(Arena& arena, std::uint64_t size);
  bool add_arena(std::uint64_t size);

  const std::uint64_t arena_bytes_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::map<const std::byte*, std::uint32_t> by_address_;
};

/// The arenas that a peer has passed. Not thread-safe.
class ForeignArenas {
 public:
  static constexpr std::size_t kMax = 64;

  /// Adds the peer's next arena. An error means that the peer broke the protocol. Memory that cannot be mapped here is
  /// no error: messages in it are transferred through the lane.
  Result<void> add(std::uint32_t number, UniqueFd memory, std::uint64_t size);
  bool knows(std::uint32_t number) const { return number < arenas_.size(); }

  enum class Found : std::uint8_t { kYes, kNotMapped, kInvalid };
  /// Finds the extents in this side's mappings: `found` has their addresses here. kInvalid: they lie outside the peer's
  /// arenas, or their sizes do not sum up to `length`.
  Found find(std::span<const Extent> extents, std::uint64_t length, std::vector<protocol::Extent>& found) const;
  void clear() { arenas_.clear(); }

 private:
  struct Arena {
    std::uint64_t size = 0;
    Mapping mapping;
  };
  std::vector<Arena> arenas_;
};

}  // namespace spate::bmi::shm
