// SPDX-License-Identifier: Apache-2.0
// DashboardWatch: asks the servers again and again, and keeps what the dashboard shows.
#pragma once

#include <deque>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/asker.h"
#include "tools/dashboard_rates.h"
#include "tools/file_names.h"
#include "tools/load_table.h"
#include "tools/probe.h"

namespace spate::tools {

/// One thread calls ask(); any thread calls state(). A server that does not answer costs one round a second, and the
/// others are shown. The context and its process outlive it; the thread that asks has ended before the destructor.
class DashboardWatch {
 public:
  /// Points of the charts that are kept: ten minutes of rounds of 2 s.
  static constexpr std::size_t kMostPoints = 300;
  /// Rows of each table of the busiest.
  static constexpr std::size_t kMostRows = 10;

  /// `process` is the context's.
  DashboardWatch(Context& context, assembly::ClientProcess& process);
  ~DashboardWatch();

  /// Asks all servers once.
  void ask();
  /// The last round, JSON (docs/json.md, "The dashboard").
  std::string state() const;

 private:
  struct Round;
  void ask_counters(Round& round);
  void ask_loads(Round& round);
  nlohmann::json servers_of(const Round& round) const;
  nlohmann::json busiest_of(const Round& round);
  nlohmann::json work_of(const Round& round) const;
  void keep(const nlohmann::json& state);

  Context& context_;
  assembly::ClientProcess& process_;
  FileNames names_;
  std::optional<Asker> asker_;
  std::unique_ptr<Round> before_;
  std::deque<RatePoint> points_;
  mutable std::mutex mutex_;
  std::string state_;  // guarded by mutex_
};

}  // namespace spate::tools
