// SPDX-License-Identifier: Apache-2.0
// Converts arguments from C to Spate's own values, and checks all of them.
#include <algorithm>
#include <climits>

#include "capi/handles.h"
#include "datatype/cursor.h"

namespace spate::capi {

posix::PathAt at(const char* path, bool follow) {
  posix::PathAt where;
  where.path = path;
  where.follow = follow;
  return where;
}

posix::PathAt at(const spate_file& directory, const char* path, bool follow) {
  posix::PathAt where = at(path, follow);
  where.base = directory.file->handle();
  return where;
}

template <typename View>
Result<std::vector<View>> memory_of(const iovec* memory, int count) {
  if (count < 0 || count > IOV_MAX)
    return Error(Errc::kInvalidArgument, "the count of memory pieces must be 0 to 1024");
  if (memory == nullptr && count > 0) return Error(Errc::kInvalidArgument, "memory pieces: null");
  std::vector<View> views;
  views.reserve(static_cast<std::size_t>(count));
  std::size_t total = 0;
  for (int i = 0; i < count; ++i) {
    const iovec& piece = memory[i];
    if (piece.iov_base == nullptr && piece.iov_len > 0) return Error(Errc::kInvalidArgument, "a memory piece: null");
    if (piece.iov_len > static_cast<std::size_t>(SSIZE_MAX) - total)
      return Error(Errc::kInvalidArgument, "more than SSIZE_MAX bytes");
    total += piece.iov_len;
    views.emplace_back(static_cast<typename View::pointer>(piece.iov_base), piece.iov_len);
  }
  return views;
}

template Result<std::vector<MutableByteView>> memory_of<MutableByteView>(const iovec* memory, int count);
template Result<std::vector<ByteView>> memory_of<ByteView>(const iovec* memory, int count);

template <typename View>
Result<std::vector<View>> memory_of(void* base, const spate_strided* pattern, std::uint64_t size) {
  if (size == 0) return std::vector<View>();
  if (base == nullptr) return Error(Errc::kInvalidArgument, "memory: null");
  SPATE_TRY(const auto whole, window_of(pattern, {0, size}));
  if (whole.blocks() > kMostMemoryPieces)
    return Error(Errc::kInvalidArgument, "more than 4194304 pieces of memory: give a smaller window");
  std::vector<View> views;
  for (datatype::Cursor at(whole); !at.done(); at.next()) {
    const auto& piece = at.piece();
    views.emplace_back(static_cast<typename View::pointer>(base) + piece.offset, piece.size);
  }
  return views;
}

template Result<std::vector<MutableByteView>> memory_of<MutableByteView>(void* base, const spate_strided* pattern,
                                                                         std::uint64_t size);
template Result<std::vector<ByteView>> memory_of<ByteView>(void* base, const spate_strided* pattern,
                                                           std::uint64_t size);

Result<std::vector<datatype::Description>> description_of(const spate_range* ranges, std::size_t count) {
  if (ranges == nullptr && count > 0) return Error(Errc::kInvalidArgument, "ranges: null");
  std::vector<datatype::Description> parts;
  std::vector<Extent> pieces;
  std::size_t at = 0;
  do {
    const std::size_t end = std::min(count, at + datatype::kMaxListPieces);
    pieces.clear();
    for (; at < end; ++at) pieces.push_back({ranges[at].offset, ranges[at].size});
    SPATE_TRY(auto part, datatype::Description::list(pieces));
    parts.push_back(std::move(part));
  } while (at < count);
  return parts;
}

namespace {

Result<std::vector<datatype::Level>> levels_of(const spate_strided* what) {
  static_assert(SPATE_MAX_LEVELS == datatype::kMaxLevels);
  if (what == nullptr) return Error(Errc::kInvalidArgument, "description: null");
  if (what->level_count > SPATE_MAX_LEVELS) return Error(Errc::kInvalidArgument, "a pattern has at most 8 levels");
  std::vector<datatype::Level> levels;
  for (std::size_t i = 0; i < what->level_count; ++i) levels.push_back({what->levels[i].count, what->levels[i].stride});
  return levels;
}

}  // namespace

Result<datatype::Description> description_of(const spate_strided* what) {
  SPATE_TRY(const auto levels, levels_of(what));
  return datatype::Description::strided(what->offset, what->block_size, levels);
}

Result<datatype::Description> window_of(const spate_strided* what, Extent window) {
  SPATE_TRY(const auto levels, levels_of(what));
  return datatype::Description::strided_window(what->offset, what->block_size, levels, window);
}

}  // namespace spate::capi
