// SPDX-License-Identifier: Apache-2.0
// Which targets may keep copies of the same data: those of different servers, on different hosts if possible.
#pragma once

#include <string_view>
#include <vector>

#include "model/cluster_map.h"
#include "model/data_group.h"

namespace spate {

/// The host in the first URL of the server that shows one; empty if none does.
std::string_view host_of(const ServerEntry& server);

/// The io servers of the map that have targets, in the order of their numbers. They live as long as the map.
std::vector<const ServerEntry*> servers_with_targets(const ClusterMap& map);

/// Whether each of these servers shows its host, and there are at least `count` different ones.
bool may_keep_hosts_apart(const std::vector<const ServerEntry*>& servers, std::size_t count);

/// The targets that may take the place of the member `absent`, one for each server that has no member, the best first.
/// If the servers of the map show enough hosts for all members, those on the host of a member that stays are left out.
/// Different groups yield different orders, so that many servers share the work of one that is gone. Empty: there is
/// none.
std::vector<TargetId> replacements(const ClusterMap& map, const DataGroup& group, TargetId absent);

}  // namespace spate
