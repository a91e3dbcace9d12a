// SPDX-License-Identifier: Apache-2.0
// `spate down`, `spate status`.
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "assembly/locate.h"
#include "config/load.h"
#include "model/server_url.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/etcd_members.h"
#include "tools/groups.h"
#include "tools/known.h"
#include "tools/mounts.h"
#include "tools/name_space.h"
#include "tools/port_owner.h"
#include "tools/probe.h"
#include "tools/server_control.h"
#include "tools/text.h"
#include "tools/up_down.h"
#include "tools/voters.h"

namespace spate::tools {
namespace {

constexpr Duration kStopGrace = std::chrono::seconds(60);  // they sync their disks

struct DownOptions {
  std::string folder;
  bool force = false;
};

/// Makes pid files for servers that run without one, so that they are stopped, too.
void adopt_unlisted(Context& context, const std::string& folder, const config::FileSystemConfig& config) {
  for (const ServerProcessState& state : look_at_servers(folder, config)) {
    if (state.pid == 0) std::ignore = look_at_port(context, folder, *config.find_server(state.server));
  }
}

/// The config's servers, and all that have a pid file: somebody may have removed one from the config while it ran.
std::vector<ServerId> servers_of(const std::string& folder, const Result<config::LoadedConfig>& loaded) {
  std::set<ServerId> servers;
  for (const ServerId server : servers_with_pid_files(folder)) servers.insert(server);
  if (loaded) {
    for (const ServerProcessState& state : look_at_servers(folder, loaded->config)) servers.insert(state.server);
  }
  return {servers.begin(), servers.end()};
}

/// Returns how many were stopped. Sets `code` if one cannot be stopped.
std::size_t stop_all(Context& context, const std::string& folder, const std::vector<ServerId>& servers, int& code) {
  std::size_t stopped = 0;
  std::vector<ServerProcessState> states;
  for (const ServerId server : servers) states.push_back(look_at_server(folder, server));
  for (const ServerProcessState& state : states) {
    if (state.pid != 0) ::kill(state.pid, SIGTERM);  // to all at once; the waits follow below
  }
  for (const ServerProcessState& state : states) {
    if (state.stale) {
      forget_server(folder, state.server);
      if (!context.quiet && !context.json)
        print(fmt::format("server {} had ended by itself; its log: {}\n", state.server.value,
                          log_path(folder, state.server)));
    }
    if (state.pid == 0) continue;
    const auto done = stop_server(folder, state.server, state.pid, kStopGrace);
    if (!done) {
      code = context.fail(done.error());
    } else {
      ++stopped;
    }
  }
  return stopped;
}

/// Stops servers whose folder was removed, or replaced by another one, while they ran.
std::size_t stop_orphans(Context& context, const std::string& folder, int& code) {
  std::size_t stopped = 0;
  for (const RunningServer& one : running_servers()) {
    if (one.config_file != config_path(folder)) continue;
    const auto done = stop_server(folder, one.server, one.pid, kStopGrace);
    if (!done) code = context.fail(done.error());
    stopped += done ? 1U : 0U;
  }
  return stopped;
}

/// The folder is gone, and with it the lock, the pid files and the data.
int end_orphans(Context& context, const std::string& folder, const Error& why) {
  int code = kExitOk;
  const std::size_t stopped = stop_orphans(context, folder, code);
  if (const auto ended = stop_members(running_supervisors(folder)); !ended) code = context.fail(ended.error());
  if (stopped == 0 && code == kExitOk) return context.fail(why);
  std::ignore = forget_file_system(config_path(folder));
  if (context.json) {
    context.print_json({{"folder", printable(folder)}, {"stopped", stopped}});
  } else if (!context.quiet) {
    print(fmt::format("Stopped {} of a file system whose folder is gone: {}\n", counted(stopped, "server"), folder));
  }
  return code;
}

/// Block servers end first: they write their data back to the other servers, which must still run.
std::vector<std::vector<ServerId>> in_turns(const std::vector<ServerId>& servers,
                                            const Result<config::LoadedConfig>& loaded) {
  std::vector<std::vector<ServerId>> turns(2);
  for (const ServerId server : servers) {
    const config::ServerConfig* const known = loaded ? loaded->config.find_server(server) : nullptr;
    turns[known != nullptr && known->roles.block ? 0 : 1].push_back(server);
  }
  return turns;
}

}  // namespace

Result<void> check_no_mounts(const std::string& folder) {
  std::string list;
  for (const MountPoint& one : mounts_of(config_path(folder)))
    list += "\n  `spate umount " + shell_word(one.directory) + "`";
  if (list.empty()) return {};
  return Error::told(Errc::kBusy,
                     "it is mounted; unmount it first, or stop the servers all the same with --force (programs "
                     "then wait for `spate up`):" +
                         list);
}

namespace {

/// The folder that `spate down` without a name means if that has been removed; empty: a name was given.
std::string last_folder(const Context& context) {
  if (!context.fs.empty() || std::getenv("SPATE_FS") != nullptr) return {};
  std::ifstream in(assembly::current_file());
  std::string config;
  std::getline(in, config);
  return std::filesystem::path(config).parent_path().string();
}

int run_down(Context& context, const DownOptions& options) {
  auto folder = folder_of(context, options.folder);
  if (!folder) {
    const std::string gone = last_folder(context);
    return gone.empty() ? context.fail(folder.error()) : end_orphans(context, gone, folder.error());
  }
  if (const auto own = check_owner(*folder); !own) return context.fail(own.error());
  const auto loaded = config::load_file(config_path(*folder), {});
  if (!loaded && servers_with_pid_files(*folder).empty()) {
    if (loaded.code() == Errc::kNotFound) return end_orphans(context, *folder, no_file_system(config_path(*folder)));
    return context.fail(loaded.error());
  }
  if (loaded && !is_deployment(*folder)) {
    return context.fail("`spate up` has not started the servers of " + config_path(*folder) +
                        ", so `spate down` stops none of them; stop" +
                        commands_on_hosts(config_path(*folder), loaded->config.servers, "stop"));
  }
  if (const auto unused = options.force ? Result<void>() : check_no_mounts(*folder); !unused)
    return context.fail(unused.error(), *folder);
  const auto lock = lock_folder(*folder, kLockTimeout);
  if (!lock) return context.fail(lock.error());
  int code = kExitOk;
  if (loaded) {
    adopt_unlisted(context, *folder, loaded->config);
  } else {
    // Servers must not run on because somebody has mistyped a line of spate.toml since their start.
    code = context.fail(loaded.error());
  }
  std::size_t stopped = 0;
  for (const auto& servers : in_turns(servers_of(*folder, loaded), loaded))
    stopped += stop_all(context, *folder, servers, code);
  stopped += stop_orphans(context, *folder, code);
  // Last: a meta server that ends gives its part to another one through them.
  const auto supervisors = running_supervisors(*folder);
  if (const auto ended = stop_members(supervisors); !ended) code = context.fail(ended.error());
  if (context.json) {
    context.print_json({{"folder", printable(*folder)}, {"stopped", stopped}});
  } else if (!context.quiet) {
    const std::string what = stopped == 0 && !supervisors.empty() ? counted(supervisors.size(), "member") + " of etcd"
                                                                  : counted(stopped, "server");
    print(stopped == 0 && supervisors.empty()
              ? "Nothing was running.\n"
              : fmt::format("Stopped {}. The data stays in {}; `spate up --dir {}` brings it back.\n", what, *folder,
                            shell_word(*folder)));
  }
  return code;
}

std::string roles_text(const config::ServerRoles& roles) {
  std::string text;
  for (const auto& [has, name] :
       {std::pair(roles.meta, "meta"), std::pair(roles.io, "io"), std::pair(roles.block, "block")}) {
    if (has) text += (text.empty() ? "" : ",") + std::string(name);
  }
  return text;
}

/// Whether no process is there or answers. Other codes mean that another program is there, or that the server refuses
/// this client.
bool is_down(Errc code) {
  return code == Errc::kUnreachable || code == Errc::kTimeout || code == Errc::kConnectionLost;
}

/// The reason alone, since the line already has "server 3 ... tcp://...".
std::string reason_of(const config::ServerConfig& server, const Error& error) {
  std::string text = error.message();
  const std::string name = fmt::format("server {} ({})", server.id.value, shown_url(server.urls));
  if (text.starts_with(name)) text.erase(0, name.size());
  return text.substr(std::min(text.find_first_not_of(": "), text.size()));
}

/// How the server was reached, for its line of the table. Empty: by the address that the line shows.
std::string way_of(const config::ServerConfig& server, const bmi::PeerInfo& peer) {
  if (is_shm_url(peer.url)) return ", by shared memory";
  return peer.url == shown_url(server.urls) ? "" : ", by " + peer.url;
}

std::string rack_of(const config::ServerConfig& server) { return server.rack.empty() ? "" : ", rack " + server.rack; }

/// The fields that a row has for each server, up or down.
nlohmann::json row_of(const config::ServerConfig& server, bool up) {
  nlohmann::json row = {
      {"server", server.id.value}, {"roles", roles_text(server.roles)}, {"url", shown_url(server.urls)}, {"up", up}};
  if (!server.rack.empty()) row["rack"] = server.rack;
  return row;
}

int tell_dead(Context& context, const std::vector<config::ServerConfig>& dead, std::size_t all) {
  const std::string file = context.config_file().value();  // it was opened just now
  const std::string folder = std::filesystem::path(file).parent_path().string();
  const auto belongs_here = [&](const config::ServerConfig& server) { return has_folder(folder, server.id); };
  std::vector<config::ServerConfig> elsewhere = dead;
  std::erase_if(elsewhere, belongs_here);
  std::string how = "start" + commands_on_hosts(file, elsewhere, "start");
  if (is_deployment(folder)) {
    how = elsewhere.size() == dead.size() ? ""
                                          : "`spate up --dir " + shell_word(folder) + "` starts what is missing here";
    for (const config::ServerConfig& server : elsewhere)
      how += fmt::format("{}`spate up` on the machine of {} starts server {}", how.empty() ? "" : "; ",
                         shown_url(server.urls), server.id.value);
  }
  return context.tell(
      fmt::format("{} of {} {} down: ", dead.size(), counted(all, "server"), dead.size() == 1 ? "is" : "are") + how);
}

/// Adds a row for each member of etcd. Returns what to do about those that are down.
std::string add_coordinator(const assembly::ClientProcess& process, nlohmann::json& list, std::string& text) {
  if (process.config().meta.coordinator.empty()) return "";
  const std::vector<VoterState> voters = look_at_voters(process.config());
  for (const VoterState& voter : voters) {
    const bool up = voter.problem.empty();
    nlohmann::json row = {{"etcd", voter.url}, {"name", voter.name}, {"votes", voter.votes}, {"up", up}};
    if (!up) row["error"] = voter.problem;
    list.push_back(std::move(row));
    text += fmt::format("{:<10} {:<8} {:<28} {}{}\n", voter.name.empty() ? "etcd" : voter.name, "coord", voter.url,
                        up ? "up" : "DOWN " + voter.problem, voter.votes || !up ? "" : ", no vote yet");
  }
  return advice_for(voters);
}

/// Adds a row for the groups of targets, if there are any and the meta server answers. False: one lacks a copy.
bool add_groups(Context& context, assembly::ClientProcess& process, const std::vector<ServerId>& io_servers,
                nlohmann::json& list, std::string& text) {
  const auto groups = all_groups(process);
  if (!groups || groups->empty()) return true;
  GroupHealth health = health_of(*groups, io_servers);
  add_work_of(context, io_servers, health);
  list.push_back(to_json(health));
  text += health_text(health);
  return health.degraded == 0;
}

/// The parts of those of several meta servers that answer.
struct MetaParts {
  bool leads = false;       // one of them, or the only meta server answers
  bool incomplete = false;  // one does not hold everything yet
  bool waits = false;       // one knows of the others
  void add(const std::string& part) {
    leads = leads || part.empty() || part.starts_with("leads");
    incomplete = incomplete || (part != "backup" && !part.empty() && !part.starts_with("leads"));
    waits = waits || !part.empty();
  }
};

int run_status(Context& context, const DownOptions&) {
  context.names_dead_servers = false;
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const auto servers = all_servers(**process);
  std::vector<ServerId> ids;
  for (const config::ServerConfig& server : servers) ids.push_back(server.id);
  nlohmann::json list = nlohmann::json::array();
  std::string text;
  int code = kExitOk;
  std::vector<config::ServerConfig> dead;
  std::vector<ServerId> io_servers;  // that are up
  MetaParts parts;
  const auto found = ping_all(**process, ids, {});
  for (const config::ServerConfig& server : servers) {
    const Result<PingResult>& pinged = found.at(server.id);
    nlohmann::json row = row_of(server, pinged.has_value());
    text +=
        fmt::format("server {:<3} {:<8} {:<28} ", server.id.value, roles_text(server.roles), shown_url(server.urls));
    if (pinged) {
      row["pid"] = pinged->reply.pid;
      row["uptime_ms"] = pinged->reply.uptime_ms;
      row["software"] = pinged->reply.software;
      row["network"] = pinged->peer.url;
      row["encryption"] = pinged->peer.security;
      const std::string part = part_of(pinged->reply);
      if (!part.empty()) row["group"] = part;
      if (server.roles.io) io_servers.push_back(server.id);
      if (server.roles.meta) parts.add(part);
      text += fmt::format("up   pid {:<8} for {}{}{}{}{}\n", pinged->reply.pid, human_span(pinged->reply.uptime_ms),
                          part.empty() ? "" : ", " + part, rack_of(server), way_of(server, pinged->peer),
                          pinged->peer.security.empty() ? "" : ", " + pinged->peer.security);
    } else {
      code = kExitFailed;
      row["error"] = pinged.error().message();
      row["code"] = name(pinged.error().code());
      text += (is_down(pinged.code()) ? "DOWN " : "REFUSED ") + reason_of(server, pinged.error()) + "\n";
      if (is_down(pinged.code())) dead.push_back(server);
    }
    list.push_back(std::move(row));
  }
  const std::string advice = add_coordinator(**process, list, text);
  if (parts.leads && !add_groups(context, **process, io_servers, list, text)) code = kExitFailed;
  if (parts.incomplete) code = kExitFailed;
  if (context.json) {
    context.print_json(list);
  } else {
    print(printable_lines(text));
  }
  if (!dead.empty()) code = tell_dead(context, dead, servers.size());
  if (parts.waits && !parts.leads)
    code = context.tell(
        "no meta server leads, so all calls wait. Within seconds one leads if most members of etcd answer; else `spate "
        "logs` says why. If etcd has lost its data, `spate coord restore` makes its record anew");
  return advice.empty() ? code : context.tell(advice);
}

}  // namespace

int stop_file_system(Context& context, const std::string& folder) {
  return run_down(context, DownOptions{folder, true});
}

Command make_down() {
  auto options = std::make_shared<DownOptions>();
  Command command;
  command.name = "down";
  command.group = "Start and stop";
  command.summary = "stop the servers that `spate up` started (the data stays)";
  command.options = {{"--dir", "the folder given to `spate up`", &options->folder, false, {}, false, known_folders},
                     {"--force", "stop it although it is mounted: programs wait until `spate up`", &options->force}};
  command.run = [options](Context& context) { return run_down(context, *options); };
  return command;
}

Command make_status() {
  auto options = std::make_shared<DownOptions>();
  Command command;
  command.name = "status";
  command.group = "Start and stop";
  command.summary = "show each server: up or down, since when";
  command.run = [options](Context& context) { return run_status(context, *options); };
  return command;
}

}  // namespace spate::tools
