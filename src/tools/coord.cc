// SPDX-License-Identifier: Apache-2.0
// `spate coord`: the etcd cluster that says which of several meta servers leads.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "assembly/coordinator/registry.h"
#include "config/load.h"
#include "tools/commands.h"
#include "tools/coord_commands.h"
#include "tools/etcd_members.h"
#include "tools/text.h"
#include "tools/voters.h"

namespace spate::tools {
namespace {

struct CoordOptions {
  std::string action;
  std::vector<std::string> words;
  RestoreOptions restore;
};

/// The cluster of the file system in use, and what it takes to ask it.
struct Cluster {
  SystemClock clock;
  job::Executor executor{clock};
  std::unique_ptr<coord::Voters> voters;
};

Result<void> open_cluster(Context& context, Cluster& cluster) {
  SPATE_TRY(const std::string file, context.config_file());
  SPATE_TRY(const auto loaded, config::load_file(file, {}));
  if (loaded.config.meta.coordinator.empty())
    return Error::told(Errc::kNotSupported, "this file system has a single meta server and no etcd");
  SPATE_TRY(cluster.voters, assembly::make_voters(loaded.config, cluster.executor));
  return {};
}

std::string state_of(Cluster& cluster, const coord::Voter& voter) {
  if (voter.name.empty()) return "not started yet";
  const std::string problem = problem_of(cluster.executor.run(cluster.voters->check(voter.client_url, {})));
  return (problem.empty() ? "up" : "DOWN " + problem) + (voter.learner ? ", no vote yet" : "");
}

/// A member of etcd, as `etcdctl member list` shows it.
std::string id_text(const coord::Voter& voter) { return fmt::format("{:x}", voter.id); }

int list_voters(Context& context) {
  Cluster cluster;
  const auto opened = open_cluster(context, cluster);
  const auto voters = opened ? cluster.executor.run(cluster.voters->list({})) : opened.error();
  if (!voters) return context.fail(etcd_error(voters.error()));
  nlohmann::json rows = nlohmann::json::array();
  for (const coord::Voter& voter : *voters) {
    const std::string url = voter.client_url.empty() ? voter.peer_url : voter.client_url;
    const std::string state = state_of(cluster, voter);
    const std::string id = id_text(voter);
    if (!context.json)
      print(fmt::format("{:<16} {:<16} {:<28} {}\n", id, printable(voter.name), printable(url), state));
    rows.push_back({{"id", id},
                    {"name", printable(voter.name)},
                    {"url", printable(url)},
                    {"votes", !voter.learner},
                    {"state", state}});
  }
  if (context.json) context.print_json(std::move(rows));
  return kExitOk;
}

int remove_voter(Context& context, const std::string& name) {
  Cluster cluster;
  const auto opened = open_cluster(context, cluster);
  const auto voters = opened ? cluster.executor.run(cluster.voters->list({})) : opened.error();
  if (!voters) return context.fail(etcd_error(voters.error()));
  const auto found = std::ranges::find_if(*voters, [&](const coord::Voter& voter) {
    return !name.empty() && (voter.name == name || voter.peer_url == name || id_text(voter) == name);
  });
  if (found == voters->end()) return context.fail("etcd has no member \"" + name + "\": `spate coord list` shows all");
  const auto removed = cluster.executor.run(cluster.voters->remove(found->id, {}));
  if (!removed) return context.fail(etcd_error(removed.error()));
  if (context.json) {
    context.print_json({{"removed", name}});
  } else if (!context.quiet) {
    print(name + " has no vote any more.\n");
  }
  return kExitOk;
}

int run_coord(Context& context, const CoordOptions& options) {
  if (options.action == "run") {
    if (options.words.size() != 2) return context.usage("coord run takes a folder and the name of a member");
    return keep_member(options.words[0], options.words[1]);
  }
  if (options.action == "restore") {
    if (!options.words.empty()) return context.usage("coord restore takes no words");
    return restore_record(context, options.restore);
  }
  if (options.action == "begin") {
    if (!options.words.empty()) return context.usage("coord begin takes no words");
    return begin_cluster(context);
  }
  if (options.action == "list") {
    if (!options.words.empty()) return context.usage("coord list takes no words");
    return list_voters(context);
  }
  if (options.action == "remove") {
    if (options.words.size() != 1) return context.usage("coord remove takes the name, the id or the URL of a member");
    return remove_voter(context, options.words.front());
  }
  if (options.action == "min") {
    if (options.words.size() > 1) return context.usage("coord min takes one number");
    return min_copies_of_names(context, options.words.empty() ? "" : options.words.front());
  }
  return context.usage("coord takes list, remove, min, restore or begin, not \"" + options.action + "\"");
}

}  // namespace

Command make_coord() {
  auto options = std::make_shared<CoordOptions>();
  Command command;
  command.name = "coord";
  command.group = "Start and stop";
  command.summary = "the members of etcd, and its record of which meta server leads";
  command.details =
      "coord list\n"
      "Shows the members of the etcd cluster.\n"
      "coord remove NAME\n"
      "Takes the vote of a member whose machine is gone for good, so that the others need fewer votes. The list also\n"
      "shows an id and a URL, for a member that has not started yet and so has no name.\n"
      "coord min [NUMBER]\n"
      "Sets or shows how many meta servers must hold a change of names before it is answered (1). While fewer hold\n"
      "everything, names can be looked up and files read, and changes wait.\n"
      "coord restore\n"
      "Recreates the record from the stores of the meta servers, after etcd has lost its data or was restored from\n"
      "an older copy. All meta servers must run, since it asks each of them. The server that holds the most leads,\n"
      "and the others receive what they lack. Clients continue. The command needs the server key.\n"
      "coord restore --without NUMBER --accept-loss\n"
      "Only if this meta server is gone for good, and no other one leads, since it alone held everything: the one\n"
      "that holds the most of the others leads. All that only the lost server held is LOST, also if it was "
      "acknowledged.\n"
      "It must not run. If it is started later, it receives the records of the others in place of its own. A\n"
      "correct record is not changed, unless all servers that it names as up to date are gone for good. Without\n"
      "--accept-loss the command says what would be done.\n"
      "coord begin\n"
      "Only if most machines with a member of etcd are gone for good, or have lost their records of etcd: begins a "
      "new\n"
      "etcd on this machine, as its only member. Then type `coord restore`, and on each other machine its `spate\n"
      "join` line. (`coord run` is for `spate up`: it keeps a member of etcd running.) All but\n"
      "`run` need the certificates or keys of a machine with servers.";
  command.positionals = {
      {"ACTION",
       "list, remove, min, restore, begin, or run",
       &options->action,
       true,
       {"list", "remove", "min", "restore", "begin", "run"}},
      {"WORD", "remove: the name, id or URL of a member; min: a number; run: a folder and a name", &options->words}};
  command.options = {
      {"--without", "restore: number of a meta server that is gone for good", &options->restore.without},
      {"--accept-loss", "restore: do it, although acknowledged changes are lost", &options->restore.accept_loss}};
  command.run = [options](Context& context) { return run_coord(context, *options); };
  return command;
}

}  // namespace spate::tools
