// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/data_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/cluster_map.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kNotYet = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();

bool contains(const std::vector<WriteId>& list, WriteId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

void add(std::vector<WriteId>& list, WriteId id) {
  if (!contains(list, id)) list.push_back(id);
}

std::uint64_t end_of(const Extent& extent) {
  return extent.size > kEndless - extent.offset ? kEndless : extent.offset + extent.size;
}

}  // namespace

std::byte DataModel::byte_of(WriteId id, std::uint64_t offset) {
  std::uint64_t word = (std::uint64_t{id} << 40U) ^ (offset >> 3U) * 0x9E3779B97F4A7C15ULL;
  word = (word ^ (word >> 31U)) * 0xBF58476D1CE4E5B9ULL;
  word ^= word >> 27U;
  return static_cast<std::byte>(word >> (8 * (offset & 7U)));
}

void DataModel::fill(WriteId id, std::span<const Extent> extents, MutableByteView out) {
  std::size_t at = 0;
  for (const Extent& extent : extents) {
    for (std::uint64_t i = 0; i < extent.size; ++i) out[at++] = byte_of(id, extent.offset + i);
  }
}

void DataModel::know(std::uint64_t handle, const Layout& layout) {
  const auto [it, fresh] = files_.try_emplace(handle);
  if (!fresh) return;
  it->second.layout = layout;
  it->second.distribution = make_distribution(layout).value();
}

std::vector<std::uint64_t> DataModel::handles() const {
  std::vector<std::uint64_t> list;
  for (const auto& [handle, file] : files_) list.push_back(handle);
  return list;
}

void DataModel::split(Cells& cells, std::uint64_t offset) {
  if (offset == kEndless) return;
  auto it = cells.upper_bound(offset);
  --it;
  if (it->first != offset) cells.emplace_hint(std::next(it), offset, it->second);
}

template <typename Do>
void DataModel::for_cells(Cells& cells, const Extent& extent, Do what) {
  const std::uint64_t end = end_of(extent);
  split(cells, extent.offset);
  split(cells, end);
  for (auto it = cells.find(extent.offset); it != cells.end() && it->first < end; ++it) what(it->second);
}

ServerId DataModel::server_of(const File& file, std::uint64_t offset) {
  const Slot& slot = file.layout.slots[file.distribution->to_physical(offset).slot];
  return ServerId(slot.targets.front().value / kMaxTargetsPerServer);
}

template <typename Do>
void DataModel::for_pieces(const File& file, const Extent& extent, Do what) {
  for (std::uint64_t at = extent.offset; at < end_of(extent);) {
    const std::uint64_t size = std::min(end_of(extent) - at, file.distribution->contiguous_bytes(at));
    what(Extent{at, size}, server_of(file, at));
    at += size;
  }
}

std::uint64_t DataModel::end_of_cells(const File& file) {
  std::uint64_t at = file.cells.rbegin()->first;
  for (int i = 0; i < 2; ++i) at += std::min(file.distribution->contiguous_bytes(at), file.layout.strip_bytes);
  return at;
}

template <typename Do>
void DataModel::for_kept_cells(File& file, const Write& write, Do what) {
  // Beyond the last cell, all bytes are alike, on all servers.
  const std::uint64_t last = end_of_cells(file);
  for (const Extent& extent : write.extents) {
    if (write.lost_on.empty()) {
      for_cells(file.cells, extent, what);
      continue;
    }
    const Extent known{extent.offset, std::max(std::min(end_of(extent), last), extent.offset) - extent.offset};
    for_pieces(file, known, [&](const Extent& piece, ServerId server) {
      if (!write.lost_on.contains(server)) for_cells(file.cells, piece, what);
    });
  }
}

WriteId DataModel::begin(std::uint64_t handle, Kind kind, std::vector<Extent> extents) {
  const auto id = static_cast<WriteId>(writes_.size());
  for (const Extent& extent : extents) {
    for_cells(files_.at(handle).cells, extent, [id](Cell& cell) {
      add(cell.now, id);
      add(cell.disk, id);
    });
    for (auto& [number, read] : reads_) {
      if (read.handle == handle) for_cells(read.cells, extent, [id](Cell& cell) { add(cell.now, id); });
    }
  }
  writes_.push_back({kind, handle, std::move(extents), 0, ++time_, kNotYet, {}});
  return id;
}

WriteId DataModel::begin_write(std::uint64_t handle, std::span<const Extent> extents) {
  return begin(handle, Kind::kData, {extents.begin(), extents.end()});
}

WriteId DataModel::begin_punch(std::uint64_t handle, std::span<const Extent> extents) {
  return begin(handle, Kind::kZeros, {extents.begin(), extents.end()});
}

WriteId DataModel::begin_truncate(std::uint64_t handle, std::uint64_t size) {
  const WriteId cut = begin(handle, Kind::kCut, {{size, kEndless - size}});
  if (size > 0) {
    const WriteId extended = begin(handle, Kind::kExtended, {{0, size}});
    writes_[cut].companion = extended;
  }
  return cut;
}

bool DataModel::is_absent(WriteId id) const {
  return writes_[id].kind == Kind::kNever || writes_[id].kind == Kind::kCut;
}

/// Removes the candidates that ended before this write began. An extension removes only those that left no byte.
void DataModel::supersede(const Write& write, std::vector<WriteId>& candidates) const {
  const bool fills_in = write.kind == Kind::kExtended;
  std::erase_if(candidates, [&](WriteId id) { return older(id, write) && (!fills_in || is_absent(id)); });
}

/// Removes the extension from the candidates if no candidate leaves the byte absent: then it had nothing to fill in.
void DataModel::drop_idle(WriteId id, std::vector<WriteId>& candidates) const {
  const auto absent = [this](WriteId other) { return is_absent(other); };
  if (candidates.size() > 1 && std::none_of(candidates.begin(), candidates.end(), absent)) std::erase(candidates, id);
}

void DataModel::succeeded(WriteId id) {
  writes_[id].ended = ++time_;
  const Write& write = writes_[id];
  const bool extends = write.kind == Kind::kExtended;
  File& file = files_.at(write.handle);
  for_kept_cells(file, write, [&](Cell& cell) {
    if (extends) drop_idle(id, cell.now);
    if (extends) drop_idle(id, cell.disk);
    if (contains(cell.now, id)) supersede(write, cell.now);
  });
  merge_equal(file.cells);
  if (write.companion != 0) succeeded(write.companion);
}

void DataModel::over(WriteId id) {
  if (writes_[id].ended != kNotYet) return;
  writes_[id].ended = ++time_;
  const Write& write = writes_[id];
  if (write.kind == Kind::kExtended) {
    for_cells(files_.at(write.handle).cells, write.extents.front(), [&](Cell& cell) {
      drop_idle(id, cell.now);
      drop_idle(id, cell.disk);
    });
  }
  if (write.companion != 0) over(write.companion);
}

void DataModel::refused_to_grow(std::uint64_t handle) {
  const bool in_doubt = size_in_doubt(handle);
  if (in_doubt) over(begin(handle, Kind::kCut, {{0, kEndless}}));
  const std::uint64_t end = in_doubt ? kEndless : size_bounds(handle).second;
  if (end > 0) over(begin(handle, Kind::kExtended, {{0, end}}));
}

ReadId DataModel::begin_read(std::uint64_t handle, std::span<const Extent> extents) {
  reads_.emplace(++last_read_, Read{handle, {extents.begin(), extents.end()}, files_.at(handle).cells, ++time_, false});
  return last_read_;
}

std::pair<std::uint64_t, std::uint64_t> DataModel::bounds(const Cells& cells) const {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for (auto it = cells.begin(); it != cells.end(); ++it) {
    const auto next = std::next(it);
    const std::uint64_t end = next == cells.end() ? kEndless : next->first;
    bool all = true;
    bool any = false;
    for (const WriteId id : it->second.now) {
      const Kind kind = writes_[id].kind;
      all &= kind == Kind::kData || kind == Kind::kExtended;
      any |= kind == Kind::kData || kind == Kind::kExtended || kind == Kind::kZeros;
    }
    if (all) low = end;
    if (any) high = end;
  }
  return {low, high};
}

std::pair<std::uint64_t, std::uint64_t> DataModel::size_bounds(std::uint64_t handle) const {
  return bounds(files_.at(handle).cells);
}

std::string DataModel::describe(const std::vector<WriteId>& candidates, std::uint64_t offset) const {
  std::string text;
  for (const WriteId id : candidates) {
    const std::byte value = writes_[id].kind == Kind::kData ? byte_of(id, offset) : std::byte{0};
    text += fmt::format(" {:02x} (write {}, kind {}, {}..{})", std::to_integer<int>(value), id,
                        static_cast<int>(writes_[id].kind), writes_[id].begun,
                        writes_[id].ended == kNotYet ? std::string() : std::to_string(writes_[id].ended));
  }
  return text;
}

std::string DataModel::check_run(Read& read, std::uint64_t offset, ByteView data) {
  split(read.cells, offset);
  split(read.cells, offset + data.size());
  for (auto it = read.cells.find(offset); !data.empty(); ++it) {
    const auto next = std::next(it);
    const std::uint64_t end = next == read.cells.end() ? kEndless : next->first;
    const std::uint64_t size = std::min<std::uint64_t>(end - offset, data.size());
    for (std::uint64_t i = 0; i < size; ++i) {
      const bool possible = std::any_of(it->second.now.begin(), it->second.now.end(), [&](WriteId id) {
        return data[i] == (writes_[id].kind == Kind::kData ? byte_of(id, offset + i) : std::byte{0});
      });
      if (possible) continue;
      return fmt::format("byte {} is {:02x}, which is none of{}", offset + i, std::to_integer<int>(data[i]),
                         describe(it->second.now, offset + i));
    }
    offset += size;
    data = data.subspan(size);
  }
  return {};
}

/// If no write of a byte was in flight during the read, only the candidates that match the read bytes remain.
void DataModel::narrow(const Read& read, std::uint64_t offset, ByteView data) {
  Cells& cells = files_.at(read.handle).cells;
  split(cells, offset);
  split(cells, offset + data.size());
  for (auto it = cells.find(offset); !data.empty(); ++it) {
    const auto next = std::next(it);
    const std::uint64_t end = next == cells.end() ? kEndless : next->first;
    const std::uint64_t size = std::min<std::uint64_t>(end - offset, data.size());
    std::vector<WriteId>& now = it->second.now;
    const bool quiet = std::all_of(now.begin(), now.end(), [&](WriteId id) { return writes_[id].ended < read.begun; });
    if (quiet && now.size() > 1) {
      std::vector<WriteId> matching;
      for (const WriteId id : now) {
        bool all = true;
        for (std::uint64_t i = 0; i < size && all; ++i) {
          all = data[i] == (writes_[id].kind == Kind::kData ? byte_of(id, offset + i) : std::byte{0});
        }
        if (all) matching.push_back(id);
      }
      // A crash may keep a datafile's length but lose its bytes. Then zeros do not prove that the bytes are absent.
      const bool nothing = std::all_of(matching.begin(), matching.end(), [this](WriteId id) { return is_absent(id); });
      if (nothing && files_.at(read.handle).size_in_doubt) matching.clear();
      if (!matching.empty()) now = std::move(matching);  // if none matches, bytes of several candidates were mixed
    }
    offset += size;
    data = data.subspan(size);
  }
}

std::string DataModel::end_read(ReadId id, ByteView data) {
  Read read = std::move(reads_.at(id));
  reads_.erase(id);
  const auto [low, high] = bounds(read.cells);
  bool at_end = false;
  for (const Extent& extent : read.extents) {
    const std::uint64_t size = std::min<std::uint64_t>(extent.size, data.size());
    if (size > 0) {
      if (at_end) return "a read goes on behind the end of the file";
      std::string wrong = check_run(read, extent.offset, data.first(size));
      if (!wrong.empty()) return wrong;
      if (extent.offset + size > high)
        return fmt::format("{} bytes at {}, but the file ends at {}", size, extent.offset, high);
      if (!read.crashed) narrow(read, extent.offset, data.first(size));
    }
    data = data.subspan(size);
    if (size == extent.size) continue;
    at_end = true;
    if (extent.offset + size < low)
      return fmt::format("the file ends at {}, but it must reach {}", extent.offset + size, low);
  }
  merge_equal(files_.at(read.handle).cells);
  return {};
}

std::string DataModel::end_stat(ReadId id, std::uint64_t size) {
  const Read read = std::move(reads_.at(id));
  reads_.erase(id);
  const auto [low, high] = bounds(read.cells);
  if (size >= low && size <= high) return {};
  if (files_.at(read.handle).size_in_doubt) return {};
  return fmt::format("the size is {}, but must be {} to {}", size, low, high);
}

std::string DataModel::synced(std::span<const WriteId> writes) {
  std::string wrong;
  for (const WriteId id : writes) {
    Write write = writes_[id];
    Cells& cells = files_.at(write.handle).cells;
    const bool cuts = write.kind == Kind::kCut || write.kind == Kind::kExtended;
    if (!cuts) write.lost_on.clear();  // the sync would have reported the loss
    for_kept_cells(files_.at(write.handle), write, [&](Cell& cell) {
      if (write.kind == Kind::kExtended && !contains(cell.disk, id)) return;  // there was nothing to fill in
      supersede(write, cell.disk);
      supersede(write, cell.now);  // the sync must not succeed if a crash had lost it
      if (cell.now.empty()) wrong = fmt::format("a sync succeeded though write {} was lost before", id);
    });
    if (write.companion != 0 && wrong.empty()) {
      const WriteId companion = write.companion;
      wrong = synced({&companion, 1});
    }
    merge_equal(cells);
    if (!wrong.empty()) break;
  }
  return wrong;
}

void DataModel::crashed(ServerId server) {
  for (Write& write : writes_) {
    const bool cuts = write.kind == Kind::kCut || write.kind == Kind::kExtended;
    if (cuts || write.ended == kNotYet) write.lost_on.insert(server);
  }
  for (auto& [handle, file] : files_) {
    for_pieces(file, {0, end_of_cells(file)}, [&](const Extent& piece, ServerId holder) {
      if (holder != server) return;
      for_cells(file.cells, piece, [&](Cell& cell) {
        if (cell.disk.size() == 1) return;
        cell.now = cell.disk;
        file.size_in_doubt = true;  // also after an unsynced cut, whose bytes may come back
      });
    });
    merge_equal(file.cells);
  }
  for (auto& [id, read] : reads_) {
    read.crashed = true;
    for (auto& [offset, cell] : read.cells) {
      for (const WriteId w : cell.disk) add(cell.now, w);
    }
  }
}

void DataModel::merge_equal(Cells& cells) {
  for (auto it = cells.begin(); it != cells.end();) {
    const auto next = std::next(it);
    if (next == cells.end()) break;
    if (next->second == it->second) {
      cells.erase(next);
    } else {
      it = next;
    }
  }
}

}  // namespace spate::cluster
