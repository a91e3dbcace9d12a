// SPDX-License-Identifier: Apache-2.0
// How a metrics snapshot is shown.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "metrics/snapshot.h"

namespace spate::tools {

/// The operations that were requested, a line each (count, failures, mean, p50, p99, max), then the other counters.
/// `seconds`: the time that the snapshot covers, for rates; 0 shows none.
std::string stats_table(const metrics::Snapshot& snapshot, double seconds);
nlohmann::json to_json(const metrics::Snapshot& snapshot);

}  // namespace spate::tools
