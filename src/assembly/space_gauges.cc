// SPDX-License-Identifier: Apache-2.0
#include "assembly/space_gauges.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <limits>

namespace spate::assembly {
namespace {

struct statvfs space_of(const std::string& folder) {
  struct statvfs space{};
  if (::statvfs(folder.c_str(), &space) != 0) space = {};
  return space;
}

std::int64_t at_most(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

void SpaceGauges::watch(const std::string& store, const std::string& folder) {
  const metrics::Labels labels{{"store", store}};
  gauges_.emplace_back(metrics_, "spate_trove_size_bytes", labels, [folder] {
    const auto space = space_of(folder);
    return at_most(space.f_blocks * space.f_frsize);
  });
  gauges_.emplace_back(metrics_, "spate_trove_free_bytes", labels, [folder] {
    const auto space = space_of(folder);
    return at_most(space.f_bavail * space.f_frsize);
  });
  if (space_of(folder).f_files == 0) return;  // no limit of its own, as on btrfs
  gauges_.emplace_back(metrics_, "spate_trove_free_files", labels,
                       [folder] { return at_most(space_of(folder).f_favail); });
}

}  // namespace spate::assembly
