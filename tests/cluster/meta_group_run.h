// SPDX-License-Identifier: Apache-2.0
// One run of a group of meta servers under faults.
#pragma once

#include <cstdint>
#include <string>

#include "tests/cluster/plants.h"

namespace spate::cluster {

struct MetaGroupOptions {
  std::uint64_t seed = 1;
  Plant plant = Plant::kNone;
  std::uint32_t servers = 0;  // 2 to 5; 0: the seed decides
  bool print = false;         // print every step
};

struct MetaGroupReport {
  std::string failure;  // empty: all answers and the final state were right
  std::uint64_t calls = 0;
  std::uint64_t epochs = 0;  // how often the leader has changed
  double virtual_seconds = 0;
};

/// Programs make, rename and remove names, each used once. A call that is carried out twice or not at all makes itself
/// or the next one fail. A reader looks for names that must exist. The same options give the same run.
MetaGroupReport run_meta_group(const MetaGroupOptions& options);

}  // namespace spate::cluster
