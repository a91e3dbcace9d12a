// SPDX-License-Identifier: Apache-2.0
// Parts: state that all operations of the io server share. Slots: a request's slots after the look-up.
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
#include "server/io/number_marks.h"
#include "server/io/options.h"
#include "server/io/target.h"

namespace spate::io {

class Mirrors;
class PrimaryTerm;

/// Pinned; one executor.
struct Parts {
  Parts(const IoOptions& options_in, std::vector<IoTarget> targets_in, job::KeyvalContext& keyval_in,
        job::NetworkContext& network, metrics::Registry& metrics);
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts();

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
  NumberMarks marks;
  CapabilityCache capabilities;
  ClientTable clients;
  DatafileTable datafiles;
  Leases leases;

  /// Datafiles whose write-back has failed, while the keyval store does not record that yet (sync.h).
  std::map<DatafileKey, DatafileTable::Use> unrecorded_losses;

  /// Whether the store has all fences from before this server joined the file system.
  bool fences_known = true;
  /// Whether removals that a crash of the machine may have undone have been repeated (redo_removals()).
  bool removals_redone = false;
  /// The last fence that the background work examined.
  ClientId fence_looked_at;

  job::StopSource stopping;
  job::Gate gate;
  metrics::Counter refused;
  log::RateLimit refused_log;
  log::RateLimit fell_back_log;

  std::unique_ptr<Mirrors> mirrors;  // the groups of targets; never null
};

/// Where a datafile is: on a target, or at the primary of a group.
struct Place {
  Target* target = nullptr;
  std::shared_ptr<PrimaryTerm> term;  // null: a target by itself
};

/// A slot that a request names, with its target and its entry in the table.
struct ResolvedSlot {
  DatafileId id;
  Target* target = nullptr;
  std::shared_ptr<PrimaryTerm> term;  // null: a target by itself
  DatafileTable::Use datafile;
};

/// A request's slots and distribution, after the checks.
struct Slots {
  std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    all.reserve(list.size());
    for (const ResolvedSlot& slot : list) all.push_back(slot.id.slot);
    return all;
  }

  std::unique_ptr<const Distribution> distribution;
  std::vector<ResolvedSlot> list;
};

}  // namespace spate::io
