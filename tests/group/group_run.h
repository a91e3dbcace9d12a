// SPDX-License-Identifier: Apache-2.0
// One run of a replicated group under faults.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "model/defect.h"

namespace spate::group {

struct GroupRunOptions {
  std::uint64_t seed = 1;
  Defect defect = Defect::kNone;
};

struct GroupRunResult {
  std::string failure;  // empty: all answers and the final state were right
  std::uint64_t operations = 0;
  std::uint64_t epochs = 0;  // number of take-overs
  std::uint64_t losses = 0;  // crashes of all machines, after which the member with the best log led
  MonoTime ended;            // when the run ended, in the world's time
};

/// A seed always gives the same run.
GroupRunResult run_group(const GroupRunOptions& options);

}  // namespace spate::group
