// SPDX-License-Identifier: Apache-2.0
// DashboardWatch: asks the servers periodically, and keeps the state that the dashboard shows.
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

/// One thread calls ask(); any thread calls state(), which never waits for a server. A server that does not answer
/// makes a round take a second longer; the state shows the others. The context and its process outlive it. ask() must
/// have returned before the destructor.
///
/// ask() cannot fail: the state has the reasons ("troubles") for what a round did not learn. Rates are differences of
/// two rounds, so the first state has none. Before the first ask() has returned, state() is empty text.
class DashboardWatch {
 public:
  /// How many points of the charts are kept: ten minutes with a round every 2 s.
  static constexpr std::size_t kMostPoints = 300;
  /// The most rows in each table of the busiest clients, jobs, users and files.
  static constexpr std::size_t kMostRows = 10;

  /// `process` is the context's.
  DashboardWatch(Context& context, assembly::ClientProcess& process);
  ~DashboardWatch();

  /// Runs one round of requests to all servers.
  void ask();
  /// The state after the last round, as JSON (docs/json.md, "The dashboard").
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
