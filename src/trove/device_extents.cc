// SPDX-License-Identifier: Apache-2.0
#include "trove/device_extents.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace spate::trove {
namespace {

constexpr std::uint64_t kBlock = 4096;
/// Most extents that one request looks at. If a file has more pieces than these, the rest goes as one request.
constexpr unsigned kMostExtents = 64;

}  // namespace

void DeviceExtents::ask(int fd, std::uint64_t offset, std::uint64_t size) {
  known_from_ = offset;
  known_to_ = offset + size;
  ends_.clear();
  alignas(fiemap) std::array<std::byte, sizeof(fiemap) + kMostExtents * sizeof(fiemap_extent)> raw{};
  auto* const map = reinterpret_cast<fiemap*>(raw.data());
  map->fm_start = offset;
  map->fm_length = size;
  map->fm_extent_count = kMostExtents;
  if (::ioctl(fd, FS_IOC_FIEMAP, map) != 0) return;  // not every file system has it: then nothing is cut
  const auto* const extents = reinterpret_cast<const fiemap_extent*>(raw.data() + offsetof(fiemap, fm_extents));
  std::uint64_t device_end = 0;
  for (unsigned i = 0; i < map->fm_mapped_extents; ++i) {
    const fiemap_extent& extent = extents[i];
    // Extents that also follow each other on the device are one request for the device.
    if (i > 0 && extent.fe_physical != device_end) ends_.push_back(extent.fe_logical / kBlock * kBlock);
    device_end = extent.fe_physical + extent.fe_length;
  }
}

std::uint64_t DeviceExtents::left_in(int fd, std::uint64_t offset, std::uint64_t size) {
  if (size <= kBlock) return size;
  if (offset < known_from_ || offset >= known_to_) ask(fd, offset, size);
  std::uint64_t end = offset + std::min(size, kMaxRequestBytes);
  const auto next = std::upper_bound(ends_.begin(), ends_.end(), offset);
  if (next != ends_.end()) end = std::min(end, *next);
  return end - offset;
}

}  // namespace spate::trove
