// SPDX-License-Identifier: Apache-2.0
// `spate join`: this machine uses the file system of `spate init`, and may store a part of it.
#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "tools/autostart.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/join_token.h"
#include "tools/known.h"
#include "tools/own_address.h"
#include "tools/probe.h"
#include "tools/server_control.h"
#include "tools/text.h"
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
  std::optional<std::uint64_t> metrics;
  bool enable = false;
};

struct Plan {
  std::string folder;
  JoinToken token;
  std::string meta_url;
  std::string own_host;  // empty: the machine stores nothing
  std::vector<config::Override> settings;
};

/// "tcp://node1:7400" of "node1", "node1:7400", "[::1]" or a whole address.
std::string url_of(const std::string& address) {
  if (address.find("://") != std::string::npos) return address;
  const std::size_t colon = address.rfind(':');
  const bool has_port = colon != std::string::npos && !address.ends_with(']');
  return "tcp://" + address + (has_port ? "" : kPortIfNone);
}

std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  return url.substr(begin, url.rfind(':') - begin);
}

/// "-": the first line of standard input, so that the token is in no list of processes.
std::string token_text(const std::string& given) {
  std::string line = given;
  if (given == "-") std::getline(std::cin, line);
  return line;
}

Result<Plan> plan_of(const Context& context, const JoinOptions& options) {
  Plan plan;
  SPATE_TRY(plan.settings, settings_of(context, options.metrics));
  SPATE_TRY(plan.token, parse_join_token(token_text(options.token)));
  plan.meta_url = url_of(options.address);
  std::error_code ignored;
  if (!options.storage.empty()) {
    if (!plan.token.server_key)
      return Error::told(Errc::kInvalidArgument,
                         "this token is for machines that store nothing: the other one that `spate init` prints goes "
                         "with --storage");
    plan.folder = (std::filesystem::absolute(options.storage, ignored) / "spate").lexically_normal().string();
    plan.own_host = options.host;
    if (plan.own_host.empty()) {
      SPATE_TRY(plan.own_host, own_address_towards(host_of(plan.meta_url)));
    }
  } else {
    plan.folder = options.folder.empty() ? default_folder() : options.folder;
    if (plan.folder.empty())
      return Error::told(Errc::kNotFound, "there is no home folder of this user (HOME): name a folder with --dir");
    plan.folder = std::filesystem::absolute(plan.folder, ignored).lexically_normal().string();
    plan.token.server_key.reset();  // a machine that stores nothing does not need it
  }
  return plan;
}

Result<void> make_folder(const Plan& plan) {
  SPATE_TRY(std::ignore, check_owner(plan.folder));
  SPATE_TRY(const FolderState before, inspect_folder(plan.folder));
  if (before == FolderState::kDeployment)
    return Error::told(Errc::kExists, plan.folder + " is of a file system already; `spate up --dir " +
                                          shell_word(plan.folder) +
                                          "` starts what belongs here, `spate destroy` removes it");
  SPATE_TRY(std::ignore, prepare_folder(plan.folder));
  SPATE_TRY(const FolderLock lock, lock_folder(plan.folder, kLockTimeout));
  SPATE_TRY(const FolderState state, inspect_folder(plan.folder));  // another `join` may have made it meanwhile
  if (state == FolderState::kDeployment) return Error::told(Errc::kExists, plan.folder + " was made just now");
  auto created = create_joined(plan.folder, plan.token, plan.meta_url, plan.settings);
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
    print(
        fmt::format("This machine uses the file system at {}: `spate mount -p /tmp/data` mounts it.\n", plan.meta_url));
  }
  return kExitOk;
}

int run_join(Context& context, const JoinOptions& options) {
  if (!context.fs.empty()) return context.usage("join takes --storage or --dir instead of --fs");
  if (!options.storage.empty() && !options.folder.empty())
    return context.usage("--dir and --storage exclude each other: a machine with --storage has all in DIR/spate");
  if (options.storage.empty() && (options.enable || options.metrics || !options.host.empty()))
    return context.usage("--enable, --host and --metrics go with --storage");
  const auto plan = plan_of(context, options);
  if (!plan) return context.fail(plan.error());
  if (!answers({plan->meta_url}))
    return context.fail(
        fmt::format("nobody answers at {}: is this the address that `spate init` printed, and can this "
                    "machine reach it?",
                    plan->meta_url));
  if (const auto made = make_folder(*plan); !made) return context.fail(made.error());
  context.fs = plan->folder;
  const int code = plan->own_host.empty() ? become_client(context, *plan) : add_server(context, plan->own_host, {});
  if (code != kExitOk) {
    undo(*plan);
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
      "join ADDRESS TOKEN [--storage DIR]\n"
      "`spate init` prints ADDRESS and TOKEN. With --storage an io server starts here, with everything in\n"
      "DIR/spate, and new files use it at once. TOKEN is a secret; - reads it from standard input. --set writes\n"
      "into this machine's new spate.toml.";
  command.positionals = {
      {"ADDRESS", "the meta server: HOST, HOST:PORT or an address as in spate.toml", &options->address, true},
      {"TOKEN", "the word that `spate init` printed, or - for standard input", &options->token, true}};
  command.options = {
      {"--storage", "a folder for this machine's part of the data", &options->storage},
      {"--dir", "without --storage: the folder for spate.toml and the key (~/.local/share/spate)", &options->folder},
      {"--host", "this machine as the others reach it (the address by which it reaches ADDRESS)", &options->host},
      {"--metrics",
       "answer GET /metrics for Prometheus at 127.0.0.1; the port is this number plus the server's number minus 1",
       &options->metrics},
      {"--enable", "also start its server at each login, by a unit of this user's systemd", &options->enable}};
  command.run = [options](Context& context) { return run_join(context, *options); };
  return command;
}

}  // namespace spate::tools
