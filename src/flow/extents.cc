// SPDX-License-Identifier: Apache-2.0
#include "flow/extents.h"

#include <algorithm>

namespace spate::flow {

std::uint64_t bytes_before_end(std::span<const Extent> extents, std::uint64_t file_size) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) {
    if (extent.offset >= file_size) return bytes;
    bytes += std::min(extent.size, file_size - extent.offset);
    if (extent.size > file_size - extent.offset) return bytes;
  }
  return bytes;
}

void keep_first(std::vector<Extent>& extents, std::uint64_t bytes) {
  std::size_t kept = 0;
  for (; kept < extents.size() && bytes > 0; ++kept) {
    extents[kept].size = std::min(extents[kept].size, bytes);
    bytes -= extents[kept].size;
  }
  extents.resize(kept);
}

void drop_first(std::vector<Extent>& extents, std::uint64_t bytes) {
  std::size_t dropped = 0;
  while (dropped < extents.size() && extents[dropped].size <= bytes) bytes -= extents[dropped++].size;
  extents.erase(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(dropped));
  if (extents.empty()) return;
  extents.front().offset += bytes;
  extents.front().size -= bytes;
}

}  // namespace spate::flow
