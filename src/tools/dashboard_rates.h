// SPDX-License-Identifier: Apache-2.0
// The points of the dashboard's charts: the servers' work in an interval. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "metrics/snapshot.h"
#include "wire/session_messages.h"

namespace spate::tools {

/// Rates and latencies of one interval, summed over servers.
struct RatePoint {
  std::int64_t time_ms = 0;  // since 1970, the end of the interval
  double read_bytes = 0;     // of file data, a second
  double written_bytes = 0;
  double failed = 0;  // requests a second
  struct Kind {
    double requests = 0;  // a second
    std::uint64_t p50_ns = 0;
    std::uint64_t p99_ns = 0;
  };
  std::array<Kind, wire::kLoadKinds> kinds;  // by wire::LoadKind
};

/// `change`: what the servers' snapshots have grown by in an interval. `seconds`: its length, > 0.
RatePoint rates_of(const metrics::Snapshot& change, double seconds, std::int64_t time_ms);
nlohmann::json to_json(const RatePoint& point);

/// The gauges that count unfinished background work ("spate_..._pending"), each with its name and value.
nlohmann::json pending_work(const metrics::Snapshot& snapshot);
/// Whether a `spate fsck` sent requests in this interval ("checks"), and whether it repaired something ("repairs").
nlohmann::json fsck_work(const metrics::Snapshot& change);

}  // namespace spate::tools
