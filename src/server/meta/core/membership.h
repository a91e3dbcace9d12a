// SPDX-License-Identifier: Apache-2.0
// Membership: the servers of the file system. They may change while clients work (docs/operating.md, "A new io
// server").
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/semaphore.h"
#include "job/storage.h"
#include "server/meta/core/options.h"
#include "server/meta/core/parts.h"
#include "server/meta/store/records.h"

namespace spate::meta {

/// The cluster map: the servers of spate.toml, and the io servers that have joined since. A server is durable in the
/// store before any file is placed on it. So after a restart the meta server can fence, ask and clean up there. One
/// executor; pinned. Life cycle: construct -> start() awaited -> the other calls.
class Membership {
 public:
  /// All outlive it.
  Membership(const MetaOptions& options, job::KeyvalContext& store, const MetaParts& parts);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// Reads the stored map. If spate.toml and the store both name a server, spate.toml counts.
  job::Task<Result<void>> start();
  /// Called at start() and with each change, with the map's version.
  void on_change(std::function<void(std::uint64_t)> listener) { listener_ = std::move(listener); }

  const ClusterMap& map() const { return record_.map; }
  /// The targets of all io servers, in the order of placement.
  const std::vector<TargetId>& targets() const { return targets_; }

  /// Reserves a number that no server has. It is durable, so the number is never given out again.
  job::Task<Result<ServerId>> reserve(job::StopToken stop);
  /// Adds an io server with these targets. If it succeeds, the server is part of the map, and every later fence reaches
  /// it. Targets are added, never removed. kExists: another server has the number or an address.
  job::Task<Result<void>> join(ServerEntry server, job::StopToken stop);

 private:
  Result<void> check(const ServerEntry& server) const;
  void move_to_rack(ClusterMap& map, const ServerEntry& server) const;
  ClusterRecord merged(const std::optional<ClusterRecord>& stored) const;
  job::Task<Result<void>> save(const ClusterRecord& record);
  void use(ClusterRecord record);

  const MetaOptions& options_;
  job::KeyvalContext& store_;
  const MetaParts& parts_;
  ClusterRecord record_;
  std::vector<TargetId> targets_;
  job::Semaphore turn_;  // changes run one after another
  std::function<void(std::uint64_t)> listener_;
};

}  // namespace spate::meta
