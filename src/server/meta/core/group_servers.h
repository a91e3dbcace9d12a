// SPDX-License-Identifier: Apache-2.0
// GroupServers: which io servers can be members of groups of targets (docs/architecture.md, "Mirrored data").
#pragma once

#include <map>
#include <set>
#include <vector>

#include "job/event.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/cluster_map.h"
#include "model/data_group.h"

namespace spate::meta {

/// A server can keep copies if it has asked this process for its groups, or if it is already a member of one. A server
/// of an earlier version never asks. A server that is not known yet counts as one that can. An operation that makes a
/// group with such a server waits for it first. One executor; pinned.
class GroupServers {
 public:
  explicit GroupServers(job::Executor& executor) : executor_(executor), changed_(executor) {}
  GroupServers(const GroupServers&) = delete;
  GroupServers& operator=(const GroupServers&) = delete;

  /// Records whether the server has shown that it can.
  void note(ServerId server, bool can);
  /// The map without the io servers that cannot, and without those that are silent if the others can keep `replicas`
  /// copies as far apart as all can: as a rule the map itself, else `room`.
  const ClusterMap& able(const ClusterMap& map, std::uint32_t replicas, ClusterMap& room) const;
  /// The io servers of the map with targets that have shown nothing yet.
  std::vector<ServerId> unknown(const ClusterMap& map) const;
  /// Ends when all of them are known, at the latest after kTimeout: then those that are not count as servers that
  /// cannot, until they show that they can.
  job::Task<Result<void>> wait_for(std::vector<ServerId> servers, job::StopToken stop);

  /// The server has asked for its groups, as each one does every other second.
  void heard(ServerId server) { heard_[server] = executor_.now(); }
  /// kTryAgain if a server of a serving member has asked for its groups in the last kSilent: it is not gone for good.
  Result<void> check_gone(const DataGroup& group) const;
  /// Whether members of groups may be replaced now by those that `next` names. If many servers fall silent at the same
  /// time, a network or a room has failed rather than the servers, and copies made elsewhere would be useless. So
  /// kTryAgain: of the map's io servers, more than kMostSilent percent and more than one have not asked for kSilent, or
  /// since this process began. Those that have no member any more do not count: `members` are those that do. kTryAgain
  /// too if a member of `next` cannot be one.
  Result<void> check_replacement(const ClusterMap& map, const DataGroup& next, const std::set<ServerId>& members) const;

 private:
  static constexpr Duration kSilent = std::chrono::seconds(10);
  static constexpr std::size_t kMostSilent = 30;

  /// Whether it has spoken, and is silent since.
  bool fell_silent(ServerId server) const;
  /// Longer than a restart of a server takes, and shorter than a client waits for an answer.
  static constexpr Duration kTimeout = std::chrono::seconds(8);

  job::Executor& executor_;
  std::set<ServerId> can_;
  std::set<ServerId> cannot_;
  std::map<ServerId, MonoTime> heard_;
  job::Event changed_;  // set and reset when a server has shown something
};

}  // namespace spate::meta
