// SPDX-License-Identifier: Apache-2.0
// One run of several meta servers under faults.
#pragma once

#include <cstdint>
#include <string>

#include "tests/cluster/plants.h"

namespace spate::cluster {

struct MetaGroupOptions {
  std::uint64_t seed = 1;
  Plant plant = Plant::kNone;
  std::uint32_t servers = 0;  // 2 to 5; 0: the seed says how many
  bool print = false;         // every step
};

struct MetaGroupReport {
  std::string failure;  // empty: everything was as it must be
  std::uint64_t calls = 0;
  std::uint64_t epochs = 0;  // how often the lead has changed
  double virtual_seconds = 0;
};

/// Programs make, rename and remove names, each of which exists once: a call that is carried out twice, or not at all,
/// fails itself or the next one. A reader looks for what others were told of. The same options give the same run.
MetaGroupReport run_meta_group(const MetaGroupOptions& options);

}  // namespace spate::cluster
