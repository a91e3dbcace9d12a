// SPDX-License-Identifier: Apache-2.0
// One run of a group under faults.
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
  std::string failure;  // empty: everything was as it must be
  std::uint64_t operations = 0;
  std::uint64_t epochs = 0;  // take-overs
  std::uint64_t losses = 0;  // power failures of all after which the best log led
  MonoTime ended;            // in the world's time
};

/// The same seed gives the same run.
GroupRunResult run_group(const GroupRunOptions& options);

}  // namespace spate::group
