// SPDX-License-Identifier: Apache-2.0
#include "tools/groups.h"

#include <fmt/core.h>

#include <algorithm>

#include "client/client.h"
#include "metrics/snapshot.h"
#include "tools/asker.h"
#include "tools/text.h"
#include "wire/mirror_messages.h"

namespace spate::tools {
namespace {

constexpr std::uint32_t kGroupsRoom = 1U << 20U;
constexpr Duration kGroupsTimeout = std::chrono::seconds(5);

job::Task<Result<wire::DataGroupsReply>> ask_for_groups(client::Client& client, wire::DataGroupsRequest request) {
  client::Session& session = client.session();
  client::Limits limits = session.limits();
  limits.deadline = std::min(limits.deadline, session.executor().now() + kGroupsTimeout);
  SPATE_CO_TRY(std::ignore, co_await session.ensure_open(limits));
  auto reply = co_await session.ask(request, limits, kGroupsRoom);
  co_return reply;
}

std::string servers_text(const std::map<ServerId, std::size_t>& servers, const char* what) {
  std::string text;
  for (const auto& [server, groups] : servers)
    text += fmt::format("{} server {} ({})", text.empty() ? "" : ",", server.value, counted(groups, "group"));
  return text.empty() ? text : fmt::format("; {}:{}", what, text);
}

/// Nothing: an older server does not have the gauge.
std::optional<std::uint64_t> gauge_of(const metrics::Snapshot& snapshot, const char* name) {
  const metrics::Sample* const sample = snapshot.find(name, {});
  if (sample == nullptr) return std::nullopt;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(sample->value, 0));
}

nlohmann::json counts_of(const std::map<ServerId, std::size_t>& servers) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [server, groups] : servers) list.push_back({{"server", server.value}, {"groups", groups}});
  return list;
}

}  // namespace

Result<GroupMap> all_groups(assembly::ClientProcess& process) {
  GroupMap groups;
  wire::DataGroupsRequest request;
  for (;;) {
    SPATE_TRY(const wire::DataGroupsReply reply,
              process.run([&](client::Client& c) { return ask_for_groups(c, request); }));
    for (const DataGroup& group : reply.groups) groups.emplace(group.id, group);
    if (!reply.more || reply.groups.empty()) return groups;
    request.after = reply.groups.back().id;
  }
}

Result<GroupMap> groups_of(assembly::ClientProcess& process, const Layout& layout) {
  GroupMap groups;
  if (layout.redundancy == Redundancy::kNone) return groups;
  std::vector<TargetId> wanted;
  for (const Slot& slot : layout.slots) wanted.push_back(slot.targets.front());
  for (std::size_t at = 0; at < wanted.size(); at += wire::kMaxGroupsTold) {
    wire::DataGroupsRequest request;
    const std::size_t count = std::min(wanted.size() - at, wire::kMaxGroupsTold);
    const auto first = wanted.begin() + static_cast<std::ptrdiff_t>(at);
    request.groups.assign(first, first + static_cast<std::ptrdiff_t>(count));
    SPATE_TRY(const wire::DataGroupsReply reply,
              process.run([&](client::Client& c) { return ask_for_groups(c, request); }));
    for (const DataGroup& group : reply.groups) groups.emplace(group.id, group);
  }
  return groups;
}

std::vector<TargetId> targets_of(const Slot& slot, const GroupMap& groups) {
  const auto group = groups.find(slot.targets.front());
  if (group == groups.end()) return slot.targets;
  std::vector<TargetId> targets{group->second.primary};
  for (const GroupMember& member : group->second.members) {
    if (member.target != group->second.primary) targets.push_back(member.target);
  }
  return targets;
}

std::string slots_text(const Layout& layout, const GroupMap& groups) {
  std::string text;
  for (const Slot& slot : layout.slots) {
    const std::vector<TargetId> targets = targets_of(slot, groups);
    for (std::size_t i = 0; i < targets.size(); ++i) text += fmt::format("{}{}", i == 0 ? " " : "+", targets[i].value);
  }
  return text;
}

GroupHealth health_of(const GroupMap& groups, const std::vector<ServerId>& answering) {
  GroupHealth health;
  health.groups = groups.size();
  for (const auto& [id, group] : groups) {
    if (!group.is_whole()) ++health.degraded;
    if (group.serving() < group.min) ++health.waiting;
    const ServerId leads = server_of(group.primary);
    if (group.serving() == 1 && std::ranges::find(answering, leads) == answering.end()) ++health.only_on[leads];
    for (const GroupMember& member : group.members) {
      if (member.state == MemberState::kAbsent) ++health.absent[server_of(member.target)];
      if (member.state == MemberState::kJoining) ++health.joining[server_of(member.target)];
    }
  }
  return health;
}

void add_work_of(Context& context, const std::vector<ServerId>& io_servers, GroupHealth& health) {
  auto asker = Asker::open(context);
  if (!asker) return;
  const auto replies = asker->ask<wire::StatsReply>(wire::StatsRequest(), io_servers);
  if (!replies) return;
  bool all_answer = true;
  std::uint64_t regions = 0;  // of 1 MiB
  for (const auto& [server, reply] : *replies) {
    const auto snapshot = reply ? metrics::Snapshot::decode(reply->snapshot) : Error(reply.error());
    const auto to_copy = snapshot ? gauge_of(*snapshot, "spate_server_io_regions_to_copy") : std::nullopt;
    if (!to_copy) all_answer = false;
    regions += to_copy.value_or(0);
    if (!snapshot) continue;
    const std::uint64_t leftover = gauge_of(*snapshot, "spate_server_io_groups_leftover").value_or(0);
    if (leftover > 0) health.leftover[server] = leftover;
    health.without_room += gauge_of(*snapshot, "spate_server_io_groups_without_room").value_or(0);
  }
  if (all_answer && !health.joining.empty()) health.to_copy_mib = regions;
}

nlohmann::json to_json(const GroupHealth& health) {
  nlohmann::json row = {{"groups", health.groups},
                        {"degraded", health.degraded},
                        {"waiting", health.waiting},
                        {"absent", counts_of(health.absent)},
                        {"joining", counts_of(health.joining)},
                        {"without_room", health.without_room},
                        {"leftover", counts_of(health.leftover)},
                        {"only_on", counts_of(health.only_on)}};
  if (health.to_copy_mib) row["to_copy_mib"] = *health.to_copy_mib;
  return row;
}

std::string health_text(const GroupHealth& health) {
  std::string state = "all whole";
  if (health.degraded > 0) {
    state = fmt::format("{} with fewer copies than they should have", health.degraded);
    if (health.waiting > 0)
      state += fmt::format("; writes to {} wait for more copies (min_copies)", counted(health.waiting, "group"));
    state += servers_text(health.absent, "absent") + servers_text(health.joining, "being brought up to date");
  }
  if (health.to_copy_mib) state += fmt::format(", {} MiB left at most", *health.to_copy_mib);
  if (health.without_room > 0)
    state += fmt::format("; no server has room for another copy of {}", counted(health.without_room, "group"));
  state += servers_text(health.leftover, "old copies to be removed");
  for (const auto& [server, groups] : health.only_on) {
    state += fmt::format(
        "; files of {} wait for server {}, which alone has their newest copy: start it, or if it is gone for good, "
        "`spate server lost {}` says what is lost with it",
        counted(groups, "group"), server.value, server.value);
  }
  return fmt::format("{:<10} {} of targets, {}\n", "mirrors", counted(health.groups, "group"), state);
}

}  // namespace spate::tools
