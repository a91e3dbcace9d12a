// SPDX-License-Identifier: Apache-2.0
// Parts: what all operations of the io server share; and a request's slots once they are found.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "job/gate.h"
#include "log/rate_limit.h"
#include "server/io/capability_cache.h"
#include "server/io/client_table.h"
#include "server/io/datafile_table.h"
#include "server/io/leases.h"
#include "server/io/options.h"
#include "server/io/target.h"

namespace spate::io {

/// Pinned; one executor.
struct Parts {
  Parts(const IoOptions& options_in, std::vector<IoTarget> targets_in, job::KeyvalContext& keyval_in,
        job::NetworkContext& network, metrics::Registry& metrics);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  /// The file system's time.
  WallTime now() const { return executor.clock().wall(); }

  const IoOptions options;
  job::Executor& executor;
  job::KeyvalContext& keyval;
  flow::Counters counters;
  flow::BufferPool pool;
  std::optional<flow::BufferPool> peer_pool;
  std::optional<flow::BufferPool> direct_pool;
  flow::FlowContext flow;
  std::deque<Target> targets;
  CapabilityCache capabilities;
  ClientTable clients;
  DatafileTable datafiles;
  Leases leases;

  /// Whose write-back has failed, which the keyval store has not taken down yet (sync.h).
  std::map<DatafileKey, DatafileTable::Use> unrecorded_losses;

  /// The store has all fences of before this server was one of the file system.
  bool fences_known = true;
  /// Nothing that has a tombstone is there because of a crash of the machine (removal.h).
  bool removals_redone = false;
  /// The last fence that the background looked at.
  ClientId fence_looked_at;

  job::StopSource stopping;
  job::Gate gate;
  metrics::Counter refused;
  log::RateLimit refused_log;
  log::RateLimit fell_back_log;
};

/// A slot that a request names, found.
struct ResolvedSlot {
  DatafileId id;
  Target* target = nullptr;
  DatafileTable::Use datafile;
};

/// A request's slots and distribution, checked.
struct Slots {
  std::unique_ptr<const Distribution> distribution;
  std::vector<ResolvedSlot> list;
};

}  // namespace spate::io
