// SPDX-License-Identifier: Apache-2.0
// Groups of targets that keep the same datafiles, as the meta server knows them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "model/data_group.h"
#include "model/layout.h"
#include "tools/context.h"

namespace spate::tools {

using GroupMap = std::map<TargetId, DataGroup>;

/// All groups of the file system.
Result<GroupMap> all_groups(assembly::ClientProcess& process);
/// The groups that the layout names.
Result<GroupMap> groups_of(assembly::ClientProcess& process, const Layout& layout);

/// The targets that hold a slot's data: the slot's own target, or the members of its group, the primary first.
std::vector<TargetId> targets_of(const Slot& slot, const GroupMap& groups);
/// "256+512 512+768": the targets of each slot.
std::string slots_text(const Layout& layout, const GroupMap& groups);

/// How many groups have fewer serving members than they should, and why.
struct GroupHealth {
  std::size_t groups = 0;
  std::size_t degraded = 0;
  std::size_t waiting = 0;                   // of these, those with fewer copies than a change needs: writes wait
  std::map<ServerId, std::size_t> absent;    // by server: groups whose changes it does not receive
  std::map<ServerId, std::size_t> joining;   // by server: groups in which it still receives missed changes
  std::optional<std::uint64_t> to_copy_mib;  // the most that joining members still lack; nothing: not known
  std::size_t without_room = 0;              // groups that lack a copy for which no other server has room
  std::map<ServerId, std::size_t> leftover;  // by server: groups whose old copies it has still to remove
  std::map<ServerId, std::size_t> only_on;   // by server that does not answer: groups whose newest copy only it has
};
/// `answering`: the io servers that do.
GroupHealth health_of(const GroupMap& groups, const std::vector<ServerId>& answering);
/// Adds what only the io servers know. Those that do not answer are left out.
void add_work_of(Context& context, const std::vector<ServerId>& io_servers, GroupHealth& health);
nlohmann::json to_json(const GroupHealth& health);
/// One line: "mirrors    6 groups of targets, all whole".
std::string health_text(const GroupHealth& health);

}  // namespace spate::tools
