// SPDX-License-Identifier: Apache-2.0
// `spate init`: the first machine of a file system of several.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/key_file.h"
#include "model/data_group.h"
#include "model/server_url.h"
#include "tools/autostart.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/join_token.h"
#include "tools/meta_machines.h"
#include "tools/own_address.h"
#include "tools/text.h"
#include "tools/up_down.h"

namespace spate::tools {
namespace {

struct InitOptions {
  std::string host;  // empty: not given
  std::string storage;
  std::optional<std::uint64_t> port;
  std::optional<std::uint64_t> replicas;
  std::optional<std::uint64_t> min;
  std::optional<std::uint64_t> metrics;
  std::string rack;  // of this machine; empty: not known
  std::string meta;  // other machines with meta servers: HOST[:PORT],...
  bool tls = false;
  bool enable = false;
};

constexpr std::uint32_t kUsualFirstPort = 7400;

/// The words that other machines need.
struct JoinWords {
  std::string address;  // of the meta server, or of several with commas between them
  std::size_t metas = 0;
  std::string server_token;
  std::string client_token;
};

/// The address at which other machines prove the keys of their token.
Result<std::string> address_for_joins(const config::FileSystemConfig& config, const config::ServerConfig& meta) {
  std::vector<std::string> by_key;
  for (std::size_t i = 0; i < meta.urls.size(); ++i) {
    if (auth_at(config, meta, i) == config::Auth::kKey) by_key.push_back(meta.urls[i]);
  }
  if (!by_key.empty()) return shown_url(by_key);
  return Error::told(Errc::kNotSupported, "no address of server " + std::to_string(meta.id.value) +
                                              " asks for a key (servers.auth), and `spate join` proves one");
}

Result<JoinWords> words_of(const std::string& folder) {
  SPATE_TRY(const auto loaded, config::load_file(config_path(folder), {}));
  const config::FileSystemConfig& config = loaded.config;
  JoinWords words;
  bool here = false;
  for (const config::ServerConfig& server : config.servers) {
    if (!server.roles.meta) continue;
    here = here || is_here(folder, server.id);
    SPATE_TRY(const std::string address, address_for_joins(config, server));
    words.address += (words.metas++ == 0 ? "" : ",") + address;
  }
  if (!here)
    return Error::told(Errc::kInvalidArgument, folder +
                                                   " is of a machine that joined: `spate init` prints the words "
                                                   "for others on the first machine");
  JoinToken token{config.fs.id, config.servers.front().id, {}, {}};
  SPATE_TRY(token.client_key, config::read_key_file(config.fs.client_key_file));
  words.client_token = to_text(token);
  SPATE_TRY(const Key server_key, config::read_key_file(config.fs.server_key_file));
  token.server_key = server_key;
  words.server_token = to_text(token);
  return words;
}

int tell(Context& context, const std::string& folder, const JoinWords& words) {
  if (context.json) {
    context.print_json({{"folder", printable(folder)},
                        {"config", printable(config_path(folder))},
                        {"address", words.address},
                        {"server_token", words.server_token},
                        {"client_token", words.client_token}});
    return kExitOk;
  }
  if (context.quiet) return kExitOk;
  const std::string more =
      words.metas == 1 ? std::string()
                       : fmt::format(
                             "The machines of {} addresses become meta servers when they join. The metadata survives "
                             "the loss of one\nmachine as soon as three machines vote. On a machine that only "
                             "votes:\n  spate join {} {} --vote-only\n\n",
                             words.metas, words.address, words.server_token);
  print(fmt::format(
      "Spate is up at {}, data in {}\n\n"
      "On each machine that stores data, too (the folder is an example):\n"
      "  spate join {} {} --storage /data\n\n"
      "On each machine that only uses it:\n"
      "  spate join {} {}\n\n{}"
      "The words that begin with spj1 are keys. A user with the first one may change everything; a user with\n"
      "the second one may act for any user. `spate init` prints them again. Then, on any of these machines:\n"
      "  spate mount -p /tmp/data\n",
      words.address, folder, words.address, words.server_token, words.address, words.client_token, more));
  return kExitOk;
}

/// The addresses in a list with commas, each HOST:PORT.
Result<std::vector<std::string>> metas_of(const std::string& list) {
  std::vector<std::string> metas;
  for (std::size_t at = 0; !list.empty() && at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    auto one = host_and_port(list.substr(at, end - at), kUsualFirstPort);
    if (!one) return std::move(one).error().within("--meta");
    if (std::ranges::find(metas, *one) != metas.end())
      return Error::told(Errc::kInvalidArgument, "--meta names " + *one + " twice");
    metas.push_back(*std::move(one));
    at = end + 1;
  }
  if (metas.size() >= config::kMostMetaServers)
    return Error::told(Errc::kInvalidArgument,
                       fmt::format("--meta takes 1 to {} machines besides this one", config::kMostMetaServers - 1));
  return metas;
}

Result<DeploymentPlan> plan_of(const Context& context, const InitOptions& options) {
  DeploymentPlan plan;
  SPATE_TRY(plan.settings, settings_of(context, options.metrics));
  std::error_code ignored;
  plan.folder = (std::filesystem::absolute(options.storage, ignored) / "spate").lexically_normal().string();
  plan.io_servers = 1;
  plan.tls = options.tls;
  SPATE_TRY(std::ignore, check_rack(options.rack));
  plan.rack = options.rack;
  plan.replicas = static_cast<std::uint32_t>(options.replicas.value_or(1));
  plan.min_copies = static_cast<std::uint32_t>(options.min.value_or(1));
  if (options.port) plan.first_port = static_cast<std::uint32_t>(*options.port);
  SPATE_TRY(plan.metas_elsewhere, metas_of(options.meta));
  if (!plan.metas_elsewhere.empty()) plan.etcd_members = 1;
  SPATE_TRY(const FolderState state, inspect_folder(plan.folder));
  if (state == FolderState::kDeployment) {
    const bool alone = options.host.empty() && !options.port && !options.replicas && !options.min && !options.tls &&
                       options.meta.empty() && options.rack.empty();
    if (alone && plan.settings.empty()) return plan;
    if (!options.meta.empty())
      return Error::told(Errc::kNotSupported,
                         plan.folder +
                             " holds a file system already, and which machines have meta servers is fixed when a file "
                             "system is made: make a new one with --meta in another folder and with another --port, "
                             "and copy the files into it, from one mount to the other");
    return Error::told(Errc::kExists, plan.folder + " holds a file system already, which `spate init --storage " +
                                          shell_word(options.storage) + "` starts as it is");
  }
  plan.host = options.host;
  if (!plan.host.empty()) return plan;
  auto address = own_address();
  if (!address)
    return Error::told(Errc::kUnreachable,
                       "name this machine as the others reach it: `spate init HOST --storage DIR` (it has no default "
                       "route that would tell)");
  plan.host = *std::move(address);
  return plan;
}

/// `spate up` of this folder, without its text.
int start(Context& context, const DeploymentPlan& plan, bool port_is_given) {
  const bool json = std::exchange(context.json, false);
  const bool quiet = std::exchange(context.quiet, true);
  const int code = make_and_start(context, plan, port_is_given);
  context.json = json;
  context.quiet = quiet;
  return code;
}

/// The io server of the first of several machines with meta servers, unless it is there already.
int add_io_server(Context& context, const std::string& folder, const std::string& rack) {
  const auto loaded = config::load_file(config_path(folder), {});
  if (!loaded) return context.fail(loaded.error());
  const auto& servers = loaded->config.servers;
  const auto is_io_here = [&](const config::ServerConfig& server) {
    return server.roles.io && is_here(folder, server.id);
  };
  const auto is_meta_here = [&](const config::ServerConfig& server) {
    return server.roles.meta && is_here(folder, server.id);
  };
  const auto meta = std::ranges::find_if(servers, is_meta_here);
  if (meta == servers.end() || std::ranges::any_of(servers, is_io_here)) return kExitOk;
  const EtcdMember beside = member_beside(*meta);
  context.fs = folder;
  const bool json = std::exchange(context.json, false);
  const bool quiet = std::exchange(context.quiet, true);
  const int code = add_server(context, fmt::format("{}:{}", beside.host, beside.client_port - 1), rack);
  context.json = json;
  context.quiet = quiet;
  return code;
}

/// Says what is wrong with the numbers of copies; empty: nothing.
std::string wrong_copies(const InitOptions& options) {
  const auto fits = [](std::optional<std::uint64_t> n) { return !n || (*n >= 1 && *n <= kMaxReplicas); };
  if (!fits(options.replicas)) return fmt::format("--replicas takes 1 to {}", kMaxReplicas);
  if (!fits(options.min)) return fmt::format("--min takes 1 to {}", kMaxReplicas);
  // Without --replicas, directories may get copies by `spate policy` later.
  if (options.replicas && options.min && *options.min > *options.replicas)
    return fmt::format("--min {} is more than --replicas {}", *options.min, *options.replicas);
  return {};
}

int run_init(Context& context, const InitOptions& options) {
  if (!context.fs.empty()) return context.usage("init takes --storage instead of --fs");
  if (options.storage.empty()) return context.usage("init takes --storage DIR, a folder for this machine's data");
  if (options.port && (*options.port == 0 || *options.port > 65534)) return context.usage("--port takes 1 to 65534");
  if (options.port && !options.meta.empty() && *options.port > 65532)
    return context.usage("--port takes 1 to 65532 with --meta: etcd has the third and the fourth port");
  if (const std::string wrong = wrong_copies(options); !wrong.empty()) return context.usage(wrong);
  if (options.host.find_first_of("/ \t\n\"") != std::string::npos || options.host.ends_with(':'))
    return context.usage("HOST is a name or an address of this machine");
  const auto plan = plan_of(context, options);
  if (!plan) return context.fail(plan.error());
  if (const int code = start(context, *plan, options.port.has_value()); code != kExitOk) return code;
  if (const int code = add_io_server(context, plan->folder, plan->rack); code != kExitOk) return code;
  const auto words = words_of(plan->folder);
  if (!words) return context.fail(words.error());
  if (options.enable) {
    const auto enabled = enable_autostart(plan->folder);
    if (!enabled) return context.fail(enabled.error(), "--enable");
  }
  return tell(context, plan->folder, *words);
}

}  // namespace

Command make_init() {
  auto options = std::make_shared<InitOptions>();
  Command command;
  command.name = "init";
  command.group = "Start and stop";
  command.summary = "start the first machine of a file system of several, and print how others join";
  command.details =
      "init [HOST] --storage DIR\n"
      "One meta server and one io server start here, with everything in DIR/spate. Other machines reach them at\n"
      "HOST, or at this machine's address on its default route. The command needs no root, and copies no file to\n"
      "another machine. Called again with the same DIR, it starts the servers that do not run, and prints the\n"
      "address and the token again. --set writes into the new spate.toml. With --meta the metadata survives the loss\n"
      "of a machine: the named machines become meta servers, and members of etcd, by `spate join --storage`, and a\n"
      "machine that only votes by `spate join --vote-only`. Each needs the package etcd-server.";
  command.positionals = {{"HOST", "this machine's name or address, as the others reach it", &options->host}};
  command.options = {
      {"--storage", "the folder for this machine's data; required", &options->storage},
      {"--port", "first TCP port (7400, or the next ones that are free)", &options->port},
      {"--replicas", "copies of each new file's data, on different io servers (1)", &options->replicas},
      {"--min", "copies that a write to such a file needs; with fewer, writes wait (1)", &options->min},
      {"--meta", "other machines that get meta servers when they join: HOST[:PORT],... (none); needs etcd-server",
       &options->meta},
      {"--rack", "the rack of this machine, for copies in different racks (not known)", &options->rack},
      {"--tls", "encrypt connections (tcp+tls://) under the file system's keys", &options->tls},
      {"--metrics",
       "answer GET /metrics for Prometheus at 127.0.0.1: the first server at this port, the other one at the next",
       &options->metrics},
      {"--enable", "also start it at each login, by a unit of this user's systemd", &options->enable}};
  command.run = [options](Context& context) { return run_init(context, *options); };
  return command;
}

}  // namespace spate::tools
