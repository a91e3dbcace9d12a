// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace spate::bmi::shm {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMaxArenaBytes = std::uint64_t{1} << 42U;

std::uint64_t whole_pages(std::uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

}  // namespace

MutableByteView ArenaPool::allocate(std::size_t size) {
  if (size == 0 || size > kMaxArenaBytes) return {};
  const std::uint64_t rounded = whole_pages(size);
  for (const std::unique_ptr<Arena>& arena : arenas_) {
    const MutableByteView memory = take(*arena, rounded);
    if (!memory.empty()) return memory.first(size);
  }
  if (!add_arena(std::max(rounded, arena_bytes_))) return {};
  return take(*arenas_.back(), rounded).first(size);
}

MutableByteView ArenaPool::take(Arena& arena, std::uint64_t size) {
  const auto hole = std::ranges::find_if(arena.free, [&](const auto& piece) { return piece.second >= size; });
  if (hole == arena.free.end()) return {};
  const auto [offset, room] = *hole;
  arena.free.erase(hole);
  if (room > size) arena.free.emplace(offset + size, room - size);
  return arena.mapping.view().subspan(offset, size);
}

bool ArenaPool::add_arena(std::uint64_t size) {
  if (arenas_.size() == kMaxArenas) return false;
  Result<UniqueFd> memory = make_memory("spate-arena", size);
  if (!memory) return false;
  Result<Mapping> mapping = Mapping::of(memory->get(), size, true);
  if (!mapping) return false;
  auto arena = std::make_unique<Arena>();
  arena->read_only = read_only_copy(memory->get());
  arena->memory = std::move(*memory);
  arena->mapping = std::move(*mapping);
  arena->free.emplace(0, size);
  by_address_.emplace(arena->mapping.view().data(), static_cast<std::uint32_t>(arenas_.size()));
  arenas_.push_back(std::move(arena));
  return true;
}

void ArenaPool::free(MutableByteView memory) {
  auto owner = by_address_.upper_bound(memory.data());
  SPATE_CHECK(owner != by_address_.begin());
  Arena& arena = *arenas_[std::prev(owner)->second];
  std::uint64_t offset = static_cast<std::uint64_t>(memory.data() - arena.mapping.view().data());
  std::uint64_t size = whole_pages(memory.size());
  SPATE_CHECK(offset % kPage == 0 && offset + size <= arena.mapping.view().size());
  // This fails only on a kernel that does not support it. The pages then keep their memory until they are allocated
  // again.
  (void)::madvise(memory.data(), size, MADV_REMOVE);
  auto next = arena.free.lower_bound(offset);
  if (next != arena.free.end() && next->first == offset + size) {
    size += next->second;
    next = arena.free.erase(next);
  }
  if (next != arena.free.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
    std::prev(next)->second += size;
  } else {
    arena.free.emplace(offset, size);
  }
}

bool ArenaPool::locate(SegmentList segments, std::vector<Extent>& extents) const {
  if (arenas_.empty() || segments.size() > kMaxExtents) return false;
  extents.clear();
  for (const Segment& segment : segments) {
    if (segment.size == 0) continue;
    const auto next = segment.memory == nullptr ? by_address_.begin() : by_address_.upper_bound(segment.memory);
    if (next == by_address_.begin()) return false;
    const std::uint32_t number = std::prev(next)->second;
    const MutableByteView view = arenas_[number]->mapping.view();
    const auto offset = static_cast<std::uint64_t>(segment.memory - view.data());
    if (offset >= view.size() || segment.size > view.size() - offset) return false;
    extents.push_back(Extent{number, offset, segment.size});
  }
  return true;
}

Result<void> ForeignArenas::add(std::uint32_t number, UniqueFd memory, std::uint64_t size) {
  if (number != arenas_.size() || arenas_.size() == kMax || size == 0 || size > kMaxArenaBytes) {
    return Error(Errc::kProtocol, "an arena that does not come next");
  }
  if (!memory) {  // this process is out of descriptors, so the kernel dropped the passed one
    arenas_.push_back(Arena{size, Mapping()});
    return {};
  }
  SPATE_TRY(std::ignore, check_foreign_memory(memory.get(), size));
  Result<Mapping> mapping = Mapping::of(memory.get(), size, false);
  arenas_.push_back(Arena{size, mapping ? std::move(*mapping) : Mapping()});
  return {};
}

ForeignArenas::Found ForeignArenas::find(std::span<const Extent> extents, std::uint64_t length,
                                         std::vector<protocol::Extent>& found) const {
  std::uint64_t left = length;
  bool mapped = true;
  found.clear();
  for (const Extent& extent : extents) {
    if (!knows(extent.arena) || extent.size > left) return Found::kInvalid;
    const Arena& arena = arenas_[extent.arena];
    if (extent.offset > arena.size || extent.size > arena.size - extent.offset) return Found::kInvalid;
    left -= extent.size;
    mapped = mapped && arena.mapping;
    if (!mapped || extent.size == 0) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(arena.mapping.view().data() + extent.offset);
    found.push_back(protocol::Extent{0, address, extent.size});
  }
  if (left != 0) return Found::kInvalid;
  return mapped ? Found::kYes : Found::kNotMapped;
}

}  // namespace spate::bmi::shm
