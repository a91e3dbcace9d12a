// SPDX-License-Identifier: Apache-2.0
#include "tools/server_lost.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "fsck/servers.h"
#include "model/data_group.h"
#include "tools/fsck.h"
#include "tools/probe.h"
#include "tools/text.h"
#include "wire/mirror_forward_messages.h"
#include "wire/mirror_messages.h"

namespace spate::tools {
namespace {

constexpr std::uint32_t kReplyOfGroups = 1U << 20U;
constexpr Duration kSilentAfter = std::chrono::seconds(5);

/// A process that speaks to servers with the server key. Each has its own network: a server knows one peer on each
/// connection.
struct Speaker {
  std::unique_ptr<assembly::ClientProcess> process;
  std::unique_ptr<fsck::Servers> servers;

  template <typename Reply, typename Request>
  Result<Reply> ask_meta(const Request& request) {
    return process->run([&](client::Client&) { return servers->ask_meta<Reply>(request, kReplyOfGroups); });
  }
};

/// A group of which all members that serve are lost.
struct Stranded {
  DataGroup group;
  std::vector<TargetId> older;  // members that answer and have a copy, the one to lead first
};

struct Findings {
  std::vector<Stranded> groups;
  std::size_t without_copy = 0;           // of these: no other member answers and has a copy
  std::size_t nothing_lost = 0;           // of these: all members had to have each write (min)
  std::map<ServerId, std::size_t> leads;  // by server: groups that it would lead
};

/// `speaks_for`: the io server that it calls itself; 0: none.
Result<Speaker> open_speaker(Context& context, ServerId speaks_for) {
  SPATE_TRY(const std::string file, context.config_file());
  SPATE_TRY(assembly::ClientSettings settings, context.client_settings(file));
  settings.server_key = true;
  Speaker speaker;
  SPATE_TRY(speaker.process, assembly::ClientProcess::open(settings));
  client::Session& session = speaker.process->client().session();
  fsck::ServersOptions options = servers_options(session);
  options.description = session.options().description + " (server lost)";
  options.speaks_for = speaks_for;
  options.io_deadline = kSilentAfter;
  speaker.servers = std::make_unique<fsck::Servers>(std::move(options), session.network(), speaker.process->random());
  SPATE_TRY(std::ignore, speaker.process->run([&](client::Client&) { return speaker.servers->learn_servers(); }));
  return speaker;
}

Result<std::set<ServerId>> lost_servers(const std::vector<std::string>& numbers, const ClusterMap& map) {
  std::set<ServerId> lost;
  for (const std::string& word : numbers) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool parsed = error == std::errc() && end == word.data() + word.size();
    const ServerEntry* const server = parsed ? map.find_server(ServerId(number)) : nullptr;
    if (server == nullptr || !server->roles.io)
      return Error::told(Errc::kInvalidArgument, "there is no io server \"" + printable(word) +
                                                     "\": `spate status` lists them. For a lost meta server "
                                                     "there is `spate coord restore --without`");
    lost.insert(server->id);
  }
  return lost;
}

bool is_silence(Errc code) {
  return code == Errc::kTimeout || code == Errc::kUnreachable || code == Errc::kConnectionLost;
}

/// Fails unless none of these servers answers.
Result<void> check_silent(Context& context, const std::set<ServerId>& lost) {
  context.names_dead_servers = false;
  SPATE_TRY(assembly::ClientProcess* const process, context.file_system(true));
  std::ignore = all_servers(*process);
  const std::vector<ServerId> servers(lost.begin(), lost.end());
  for (const auto& [server, answer] : ping_all(*process, servers, {.deadline = kSilentAfter})) {
    if (!answer && is_silence(answer.code())) continue;
    return Error::told(Errc::kInvalidArgument,
                       fmt::format("server {0} answers, so it is not lost. If its disk is, stop it first, and start it "
                                   "when the older copies lead{1}",
                                   server.value, answer ? "" : ": " + answer.error().message()));
  }
  return {};
}

Result<std::vector<Stranded>> stranded_groups(Speaker& speaker, const std::set<ServerId>& lost) {
  std::vector<Stranded> stranded;
  wire::DataGroupsRequest request;
  for (bool more = true; more;) {
    SPATE_TRY(const auto page, speaker.ask_meta<wire::DataGroupsReply>(request));
    for (const DataGroup& group : page.groups) {
      const bool serves = std::ranges::any_of(group.members, [&](const GroupMember& member) {
        return member.state == MemberState::kServing && !lost.contains(server_of(member.target));
      });
      if (!serves) stranded.push_back({group, {}});
    }
    more = page.more && !page.groups.empty();
    if (more) request.after = page.groups.back().id;
  }
  return stranded;
}

/// Asks one server about its copies, in the name of the groups' primary, as a primary asks whose process is new.
job::Task<Result<wire::MirrorBeaconReply>> ask_about(fsck::Servers& servers, ServerId server,
                                                     wire::MirrorBeaconRequest request) {
  auto reply = co_await servers.ask_io<wire::MirrorBeaconReply>(server, request);
  co_return reply;
}

/// Adds the members that could lead to the groups whose primary was on this server.
Result<void> find_copies(Context& context, ServerId primary, std::vector<Stranded>& all) {
  std::map<ServerId, std::vector<std::pair<Stranded*, TargetId>>> asked;
  for (Stranded& each : all) {
    if (server_of(each.group.primary) != primary) continue;
    for (const GroupMember& member : each.group.members) {
      if (member.state != MemberState::kServing) asked[server_of(member.target)].emplace_back(&each, member.target);
    }
  }
  if (asked.empty()) return {};
  SPATE_TRY(Speaker speaker, open_speaker(context, primary));
  for (const auto& [server, members] : asked) {
    for (std::size_t at = 0; at < members.size(); at += wire::kMaxBeaconGroups) {
      const std::size_t count = std::min(members.size() - at, wire::kMaxBeaconGroups);
      wire::MirrorBeaconRequest request;
      for (std::size_t i = at; i < at + count; ++i) request.groups.push_back({members[i].first->group});
      const auto reply = speaker.process->run(
          [&](client::Client&) { return ask_about(*speaker.servers, server, std::move(request)); });
      if (!reply || reply->groups.size() != count) break;
      for (std::size_t i = 0; i < count; ++i) {
        const auto& [stranded, target] = members[at + i];
        if ((reply->groups[i].flags & wire::BeaconAnswer::kKnowsLater) != 0)
          return Error::told(Errc::kTryAgain, "the record of a group has just changed, try again");
        if ((reply->groups[i].flags & wire::BeaconAnswer::kLacksAll) == 0) stranded->older.push_back(target);
      }
    }
  }
  return {};
}

/// A member that was being brought up to date has the most.
void sort_copies(Stranded& stranded) {
  const auto joins = [&](TargetId target) { return stranded.group.find(target)->state == MemberState::kJoining; };
  const auto found = std::ranges::find_if(stranded.older, joins);
  if (found != stranded.older.end()) std::iter_swap(stranded.older.begin(), found);
}

Result<Findings> look(Context& context, Speaker& speaker, const std::set<ServerId>& lost) {
  Findings findings;
  SPATE_TRY(findings.groups, stranded_groups(speaker, lost));
  std::set<ServerId> primaries;
  for (const Stranded& each : findings.groups) primaries.insert(server_of(each.group.primary));
  for (const ServerId primary : primaries) {
    SPATE_TRY(std::ignore, find_copies(context, primary, findings.groups));
  }
  for (Stranded& each : findings.groups) {
    sort_copies(each);
    if (each.older.empty()) ++findings.without_copy;
    if (each.older.empty()) continue;
    ++findings.leads[server_of(each.older.front())];
    if (each.group.min == each.group.members.size()) ++findings.nothing_lost;
  }
  return findings;
}

Result<void> accept(Speaker& speaker, const Findings& findings) {
  for (const Stranded& each : findings.groups) {
    if (each.older.empty()) continue;
    wire::ChangeGroupRequest request;
    request.from_epoch = each.group.epoch;
    request.next = without_serving(each.group, each.older.front());
    SPATE_TRY(const auto reply, speaker.ask_meta<wire::ChangeGroupReply>(request));
    if (!reply.made)
      return Error::told(Errc::kTryAgain, fmt::format("the record of group {} has just changed: type the command again",
                                                      each.group.id.value));
  }
  return {};
}

std::string servers_text(const std::map<ServerId, std::size_t>& servers) {
  std::string text;
  for (const auto& [server, groups] : servers)
    text += fmt::format("{}server {} ({})", text.empty() ? "" : ", ", server.value, counted(groups, "group"));
  return text;
}

std::string no_copy_text(const Findings& findings) {
  return fmt::format(
      "{} of targets: no other server that answers has a copy. Start those that `spate status` calls "
      "absent. If they run, they have received none yet, and only a lost server has these data",
      counted(findings.without_copy, "group"));
}

std::string warning_of(const Findings& findings) {
  const std::size_t at_risk = findings.groups.size() - findings.without_copy - findings.nothing_lost;
  std::string text = fmt::format(
      "{} of targets can be used no more, since nobody else has everything that was written to them. "
      "Older copies could lead: {}. ",
      counted(findings.groups.size() - findings.without_copy, "group"), servers_text(findings.leads));
  if (at_risk == 0)
    text += "As each write waited for all copies (min_copies), none that was acknowledged would be lost. ";
  else
    text += fmt::format(
        "All that was written to the files of {} since these copies were left behind, and acknowledged, "
        "would be LOST. ",
        counted(at_risk, "group"));
  return text + "If the lost servers are gone for good, and do not run anywhere, add --accept-loss";
}

int finish(Context& context, const Findings& findings, bool accepted) {
  const std::size_t changed = accepted ? findings.groups.size() - findings.without_copy : 0;
  nlohmann::json leads = nlohmann::json::array();
  for (const auto& [server, groups] : findings.leads) leads.push_back({{"server", server.value}, {"groups", groups}});
  const bool stays = findings.without_copy > 0 || (!accepted && !findings.leads.empty());
  if (!accepted && !findings.leads.empty()) std::ignore = context.fail(warning_of(findings));
  if (findings.without_copy > 0) std::ignore = context.fail(no_copy_text(findings));
  if (context.json) {
    context.print_json({{"groups", findings.groups.size()},
                        {"changed", changed},
                        {"without_copy", findings.without_copy},
                        {"leads", leads}});
  } else if (!context.quiet && findings.groups.empty()) {
    print("Nothing needs to be done: no group of targets depends on these servers alone.\n");
  } else if (!context.quiet && changed > 0) {
    print(
        fmt::format("Older copies lead {} of targets: {}. A lost server that is started later receives them in place "
                    "of its own.\n",
                    counted(changed, "group"), servers_text(findings.leads)));
  }
  return stays ? kExitFailed : kExitOk;
}

}  // namespace

int lose_servers(Context& context, const std::vector<std::string>& numbers, bool accept_loss) {
  auto speaker = open_speaker(context, {});
  if (!speaker) return context.fail(speaker.error());
  const auto lost = lost_servers(numbers, speaker->servers->map());
  if (!lost) return context.fail(lost.error());
  if (const auto silent = check_silent(context, *lost); !silent) return context.fail(silent.error());
  const auto findings = look(context, *speaker, *lost);
  if (!findings) return context.fail(findings.error());
  const auto done = accept_loss ? accept(*speaker, *findings) : Result<void>();
  if (!done) return context.fail(done.error());
  return finish(context, *findings, accept_loss);
}

}  // namespace spate::tools
