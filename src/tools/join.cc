// SPDX-License-Identifier: Apache-2.0
// `spate join`: this machine uses the file system of `spate init`, and may store a part of it.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "assembly/own_host.h"
#include "config/key_file.h"
#include "config/load.h"
#include "model/server_url.h"
#include "tools/autostart.h"
#include "tools/certificates.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/join_token.h"
#include "tools/known.h"
#include "tools/meta_machines.h"
#include "tools/own_address.h"
#include "tools/probe.h"
#include "tools/server_control.h"
#include "tools/text.h"
#include "tools/text_file.h"
#include "tools/up_down.h"

namespace spate::tools {
namespace {

constexpr const char* kPortIfNone = ":7400";

struct JoinOptions {
  std::string address;
  std::string token;
  std::string storage;  // empty: the machine stores nothing
  std::string folder;   // empty: the usual one
  std::string host;     // empty: by which address this machine reaches the meta server
  std::string rack;     // of this machine; empty: not known
  std::optional<std::uint64_t> metrics;
  bool vote_only = false;
  bool enable = false;
};

struct Plan {
  std::string folder;
  JoinToken token;
  std::vector<std::string> meta_urls;
  std::string own_host;  // empty: the machine is a client
  ServerId own_meta;     // the meta server that runs here; 0: none
  bool vote_only = false;
  std::string rack;
  std::vector<config::Override> settings;
};

/// Whether this machine has a member of etcd.
bool votes(const Plan& plan) { return plan.vote_only || plan.own_meta; }

/// "tcp://node1:7400" of "node1", "node1:7400", "[::1]" or a whole address.
std::string url_of(const std::string& address) {
  if (address.find("://") != std::string::npos) return address;
  const std::size_t colon = address.rfind(':');
  const bool has_port = colon != std::string::npos && !address.ends_with(']');
  return "tcp://" + address + (has_port ? "" : kPortIfNone);
}

/// The addresses in a list with commas, as `spate init` prints it.
std::vector<std::string> urls_of(const std::string& addresses) {
  std::vector<std::string> urls;
  for (std::size_t at = 0; at <= addresses.size();) {
    const std::size_t end = std::min(addresses.find(',', at), addresses.size());
    urls.push_back(url_of(addresses.substr(at, end - at)));
    at = end + 1;
  }
  return urls;
}

/// "-": the first line of standard input, so that the token is in no list of processes.
std::string token_text(const std::string& given) {
  std::string line = given;
  if (given == "-") std::getline(std::cin, line);
  return line;
}

/// How others reach this machine, and which of several meta servers belongs to it.
Result<void> find_own_place(Plan& plan, const std::string& host) {
  const bool one_of_several = plan.meta_urls.size() > 1 && !plan.vote_only;
  for (std::uint32_t i = 0; one_of_several && i < plan.meta_urls.size() && !plan.own_meta; ++i) {
    const std::string its = host_of_url(plan.meta_urls[i]);
    if (host.empty() ? assembly::is_own_url(plan.meta_urls[i]) != true : its != host) continue;
    plan.own_meta = ServerId(plan.token.meta.value + i);
    plan.own_host = its;
  }
  if (plan.own_meta) return {};
  plan.own_host = host;
  if (host.empty()) {
    SPATE_TRY(plan.own_host, own_address_towards(host_of_url(plan.meta_urls.front())));
  }
  return {};
}

Result<Plan> plan_of(const Context& context, const JoinOptions& options) {
  Plan plan;
  SPATE_TRY(plan.settings, settings_of(context, options.metrics));
  SPATE_TRY(plan.token, parse_join_token(token_text(options.token)));
  plan.meta_urls = urls_of(options.address);
  plan.vote_only = options.vote_only;
  SPATE_TRY(std::ignore, check_rack(options.rack));
  plan.rack = options.rack;
  if (plan.meta_urls.size() > config::kMostMetaServers)
    return Error::told(Errc::kInvalidArgument, "these are more addresses than a file system has meta servers");
  if (plan.vote_only && plan.meta_urls.size() == 1)
    return Error::told(Errc::kInvalidArgument,
                       "--vote-only goes with the addresses of several meta servers: `spate init --meta` prints them");
  for (const std::string& url : plan.meta_urls) {
    if (plan.vote_only && assembly::is_own_url(url) == true)
      return Error::told(Errc::kInvalidArgument, "this machine is to have a meta server (" + url +
                                                     "), and a vote with it: --storage goes here instead of "
                                                     "--vote-only");
  }
  std::error_code ignored;
  if (!options.storage.empty() || plan.vote_only) {
    if (!plan.token.server_key)
      return Error::told(Errc::kInvalidArgument,
                         "this token is for machines that store nothing: the other one that `spate init` prints goes "
                         "with --storage and --vote-only");
    SPATE_TRY(std::ignore, find_own_place(plan, options.host));
  } else {
    plan.token.server_key.reset();  // a machine that stores nothing does not need it
  }
  if (!options.storage.empty()) {
    plan.folder = (std::filesystem::absolute(options.storage, ignored) / "spate").lexically_normal().string();
    return plan;
  }
  plan.folder = options.folder.empty() ? default_folder() : options.folder;
  if (plan.folder.empty())
    return Error::told(Errc::kNotFound, "there is no home folder of this user (HOME): name a folder with --dir");
  plan.folder = std::filesystem::absolute(plan.folder, ignored).lexically_normal().string();
  return plan;
}

/// Whether an earlier call of this command was interrupted, or this one has nothing new to do.
bool is_resumed(const Plan& plan) {
  if (!votes(plan) || !is_joined(plan.folder)) return false;
  const auto loaded = config::load_file(config_path(plan.folder), {});
  // A client that knows one address alone has none of etcd's.
  return loaded && loaded->config.fs.id == plan.token.fs && !loaded->config.meta.coordinator.empty();
}

/// Whether the folder has what a member of etcd needs. That of a machine that was a client has not.
bool has_keys_of_voter(const Plan& plan) {
  const std::string tls = certificates_folder(plan.folder) + "/";
  std::error_code ignored;
  return std::ranges::all_of(
      std::array{tls + kAuthorityFile, tls + kCertificateFile, tls + kCertificateKeyFile, server_key_path(plan.folder)},
      [&](const std::string& path) { return std::filesystem::exists(path, ignored); });
}

/// A machine with a meta server, and another one than this if there is one.
std::string other_host(const Plan& plan) {
  const std::string first = host_of_url(plan.meta_urls.front());
  return first == plan.own_host && plan.meta_urls.size() > 1 ? host_of_url(plan.meta_urls[1]) : first;
}

/// The files that a token with the server key adds to the folder of a machine that was a client.
Result<void> add_keys_of_voter(const Plan& plan) {
  SPATE_TRY(const FolderLock lock, lock_folder(plan.folder, kLockTimeout));
  SPATE_TRY(std::ignore, make_etcd_certificates(plan.folder, *plan.token.server_key, plan.own_host, other_host(plan)));
  return write_file(server_key_path(plan.folder), config::key_file_text(*plan.token.server_key));
}

Result<void> make_folder(const Plan& plan) {
  SPATE_TRY(std::ignore, check_owner(plan.folder));
  SPATE_TRY(const FolderState before, inspect_folder(plan.folder));
  if (before == FolderState::kDeployment && is_resumed(plan))
    return has_keys_of_voter(plan) ? Result<void>() : add_keys_of_voter(plan);
  if (before == FolderState::kDeployment)
    return Error::told(Errc::kExists, plan.folder + " is of a file system already; `spate up --dir " +
                                          shell_word(plan.folder) +
                                          "` starts what belongs here, `spate destroy` removes it");
  SPATE_TRY(std::ignore, prepare_folder(plan.folder));
  SPATE_TRY(const FolderLock lock, lock_folder(plan.folder, kLockTimeout));
  SPATE_TRY(const FolderState state, inspect_folder(plan.folder));  // another `join` may have made it meanwhile
  if (state == FolderState::kDeployment) return Error::told(Errc::kExists, plan.folder + " was made just now");
  Result<void> created;
  if (plan.token.server_key && plan.meta_urls.size() > 1)
    created = make_etcd_certificates(plan.folder, *plan.token.server_key, plan.own_host, other_host(plan));
  if (created) created = create_joined(plan.folder, plan.token, plan.meta_urls, plan.own_meta, plan.settings);
  if (!created) std::ignore = remove_deployment(plan.folder);
  return created;
}

/// Removes what was made, unless a server of this machine is in spate.toml: that one may have begun to serve.
void undo(const Plan& plan) {
  const auto loaded = config::load_file(config_path(plan.folder), {});
  if (!loaded || look_at_servers(plan.folder, loaded->config).empty()) std::ignore = remove_deployment(plan.folder);
}

int become_client(Context& context, const Plan& plan) {
  const auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const auto usage = (*process)->run([](client::Client& client) { return client.statfs(); });
  if (!usage) return context.fail(usage.error());
  if (context.json) {
    context.print_json({{"config", printable(config_path(plan.folder))}});
  } else if (!context.quiet) {
    print(fmt::format("This machine uses the file system at {}: `spate mount -p /tmp/data` mounts it.\n",
                      plan.meta_urls.front()));
  }
  return kExitOk;
}

/// The member of etcd of this machine: that of an earlier call, if there was one.
Result<EtcdMember> own_member(const Plan& plan, const config::FileSystemConfig& config) {
  if (plan.own_meta) return member_beside(*config.find_server(plan.own_meta));
  if (const auto earlier = members_of(plan.folder); !earlier.empty()) return read_member(plan.folder, earlier.front());
  return voting_member(plan.own_host);
}

bool has_io_server(const Plan& plan, const config::FileSystemConfig& config) {
  return std::ranges::any_of(config.servers, [&](const config::ServerConfig& server) {
    return server.roles.io && is_here(plan.folder, server.id);
  });
}

/// Makes this machine a member of etcd and a meta server. Each step may have been done by an earlier call.
Result<void> join_group(Context& context, const Plan& plan) {
  SPATE_TRY(const FolderLock lock, lock_folder(plan.folder, kLockTimeout));
  SPATE_TRY(const auto loaded, config::load_file(config_path(plan.folder), {}));
  const config::FileSystemConfig& config = loaded.config;
  SPATE_TRY(const EtcdMember member, own_member(plan, config));
  SPATE_TRY(std::ignore, become_voter(plan.folder, config, member));
  if (plan.own_meta) {
    SPATE_TRY(const bool whole, start_meta_server(plan.folder, config, plan.own_meta));
    if (!context.quiet && !context.json)
      print(fmt::format("server {} ({}) is a meta server{}\n", plan.own_meta.value,
                        shown_url(config.find_server(plan.own_meta)->urls),
                        whole ? "" : ", and still receives its copy: `spate status` shows when it is a backup"));
  } else if (context.json) {
    context.print_json({{"config", printable(config_path(plan.folder))}, {"etcd", client_url(member)}});
  } else if (!context.quiet) {
    print(fmt::format("This machine votes ({}), and stores nothing.\n", client_url(member)));
  }
  return {};
}

/// Nothing is undone if it fails: etcd may count this machine already. The same command goes on where it has ended.
int become_member(Context& context, const Plan& plan) {
  if (const auto joined = join_group(context, plan); !joined)
    return context.fail(joined.error(), "the same command goes on from here");
  const auto loaded = config::load_file(config_path(plan.folder), {});
  if (!loaded) return context.fail(loaded.error());
  if (plan.vote_only) return kExitOk;
  if (!has_io_server(plan, loaded->config)) return add_server(context, plan.own_host, plan.rack);
  context.fs.clear();  // the folder names it
  return start_file_system(context, plan.folder);
}

std::string etcd_is_missing(const Plan& plan) {
  const auto program = votes(plan) ? etcd_program() : Result<std::string>(std::string());
  return program ? "" : program.error().message();
}

int run_join(Context& context, const JoinOptions& options) {
  if (!context.fs.empty()) return context.usage("join takes --storage or --dir instead of --fs");
  if (!options.storage.empty() && !options.folder.empty())
    return context.usage("--dir and --storage exclude each other: a machine with --storage has all in DIR/spate");
  if (options.storage.empty() && !options.vote_only && (options.enable || !options.host.empty()))
    return context.usage("--enable and --host go with --storage or --vote-only");
  if (options.storage.empty() && options.metrics) return context.usage("--metrics goes with --storage");
  if (options.storage.empty() && !options.rack.empty()) return context.usage("--rack goes with --storage");
  if (!options.storage.empty() && options.vote_only)
    return context.usage("--vote-only and --storage exclude each other: with --storage a machine does more than vote");
  const auto plan = plan_of(context, options);
  if (!plan) return context.fail(plan.error());
  if (const std::string why = etcd_is_missing(*plan); !why.empty()) return context.fail(why);
  if (std::ranges::none_of(plan->meta_urls, [](const std::string& url) { return answers({url}); }))
    return context.fail(
        fmt::format("nobody answers at {}: is this the address that `spate init` printed, and can this "
                    "machine reach it?",
                    fmt::join(plan->meta_urls, ", ")));
  if (const auto made = make_folder(*plan); !made) return context.fail(made.error());
  context.fs = plan->folder;
  if (!options.storage.empty() && plan->meta_urls.size() > 1 && !plan->own_meta && !context.quiet && !context.json)
    print("None of these addresses is this machine's: it gets an io server, no meta server and no vote.\n");
  const int code = votes(*plan)             ? become_member(context, *plan)
                   : plan->own_host.empty() ? become_client(context, *plan)
                                            : add_server(context, plan->own_host, plan->rack);
  if (code != kExitOk) {
    if (!votes(*plan)) undo(*plan);
    return code;
  }
  remember_file_system(config_path(plan->folder));
  if (!options.enable) return code;
  const auto enabled = enable_autostart(plan->folder);
  return enabled ? code : context.fail(enabled.error(), "--enable");
}

}  // namespace

Command make_join() {
  auto options = std::make_shared<JoinOptions>();
  Command command;
  command.name = "join";
  command.group = "Start and stop";
  command.summary = "let this machine use the file system of `spate init`, and with --storage store a part of it";
  command.details =
      "join ADDRESS TOKEN [--storage DIR | --vote-only]\n"
      "`spate init` prints ADDRESS and TOKEN. With --storage an io server starts here, with everything in\n"
      "DIR/spate, and new files use it at once. TOKEN is a secret; - reads it from standard input. --set writes\n"
      "into this machine's new spate.toml. If `spate init --meta` has named this machine, a meta server and a member\n"
      "of etcd start here, too. If that is interrupted, the same command goes on where it has ended.";
  command.positionals = {
      {"ADDRESS", "the meta server: HOST, HOST:PORT or an address as in spate.toml; several with commas",
       &options->address, true},
      {"TOKEN", "the word that `spate init` printed, or - for standard input", &options->token, true}};
  command.options = {
      {"--storage", "a folder for this machine's part of the data", &options->storage},
      {"--vote-only", "run only a member of etcd here: the third vote where two machines have meta servers",
       &options->vote_only},
      {"--dir", "without --storage: the folder for spate.toml and the key (~/.local/share/spate)", &options->folder},
      {"--host", "this machine as the others reach it (the address by which it reaches ADDRESS)", &options->host},
      {"--rack", "the rack of this machine, for copies in different racks (not known)", &options->rack},
      {"--metrics",
       "answer GET /metrics for Prometheus at 127.0.0.1; the port is this number plus the server's number minus 1",
       &options->metrics},
      {"--enable", "also start its server at each login, by a unit of this user's systemd", &options->enable}};
  command.run = [options](Context& context) { return run_join(context, *options); };
  return command;
}

}  // namespace spate::tools
