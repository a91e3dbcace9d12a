// SPDX-License-Identifier: Apache-2.0
// Which targets may keep copies of the same data: those of different servers, in different racks or on different hosts
// if possible.
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

/// A place that two copies must not share. A later one is stricter than those before it.
enum class Apart : std::uint8_t { kServers, kHosts, kRacks };

/// The strongest of them by which `count` copies can be kept apart on these servers. kRacks: there are as many racks. A
/// server whose rack is not known is in a rack of its own host. kHosts: each server shows its host, and there are as
/// many of these.
Apart may_keep_apart(const std::vector<const ServerEntry*>& servers, std::size_t count);

/// The server's rack or host; two copies in the same one are not apart. Empty with kServers.
std::string_view place_of(const ServerEntry& server, Apart apart);

/// The targets that may take the place of the member `absent`, one for each server that has no member, the best first.
/// Servers whose copies would not be apart from that of a member that stays are left out, as may_keep_apart() says.
/// Different groups yield different orders, so that many servers share the work of one that is gone. Empty: there is
/// none.
std::vector<TargetId> replacements(const ClusterMap& map, const DataGroup& group, TargetId absent);

}  // namespace spate
