// SPDX-License-Identifier: Apache-2.0
// `spate init`: the first machine of a file system of several.
#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/key_file.h"
#include "model/data_group.h"
#include "model/server_url.h"
#include "tools/autostart.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/join_token.h"
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
  std::optional<std::uint64_t> metrics;
  bool tls = false;
  bool enable = false;
};

/// The words that other machines need.
struct JoinWords {
  std::string address;  // of the meta server
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
  const config::ServerConfig& meta = config.servers.front();
  if (!meta.roles.meta || !is_here(folder, meta.id))
    return Error::told(Errc::kInvalidArgument, folder +
                                                   " is of a machine that joined: `spate init` prints the words "
                                                   "for others on the first machine");
  JoinToken token{config.fs.id, meta.id, {}, {}};
  SPATE_TRY(token.client_key, config::read_key_file(config.fs.client_key_file));
  const std::string client = to_text(token);
  SPATE_TRY(const Key server_key, config::read_key_file(config.fs.server_key_file));
  token.server_key = server_key;
  SPATE_TRY(std::string address, address_for_joins(config, meta));
  return JoinWords{std::move(address), to_text(token), client};
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
  print(fmt::format(
      "Spate is up at {}, data in {}\n\n"
      "On each machine that stores data, too (the folder is an example):\n"
      "  spate join {} {} --storage /data\n\n"
      "On each machine that only uses it:\n"
      "  spate join {} {}\n\n"
      "The words that begin with spj1 are keys. A user with the first one may change everything; a user with\n"
      "the second one may act for any user. `spate init` prints them again. Then, on any of these machines:\n"
      "  spate mount -p /tmp/data\n",
      words.address, folder, words.address, words.server_token, words.address, words.client_token));
  return kExitOk;
}

Result<DeploymentPlan> plan_of(const Context& context, const InitOptions& options) {
  DeploymentPlan plan;
  SPATE_TRY(plan.settings, settings_of(context, options.metrics));
  std::error_code ignored;
  plan.folder = (std::filesystem::absolute(options.storage, ignored) / "spate").lexically_normal().string();
  plan.io_servers = 1;
  plan.tls = options.tls;
  plan.replicas = static_cast<std::uint32_t>(options.replicas.value_or(1));
  if (options.port) plan.first_port = static_cast<std::uint32_t>(*options.port);
  SPATE_TRY(const FolderState state, inspect_folder(plan.folder));
  if (state == FolderState::kDeployment) {
    const bool alone = options.host.empty() && !options.port && !options.replicas && !options.tls;
    if (alone && plan.settings.empty()) return plan;
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

int run_init(Context& context, const InitOptions& options) {
  if (!context.fs.empty()) return context.usage("init takes --storage instead of --fs");
  if (options.storage.empty()) return context.usage("init takes --storage DIR, a folder for this machine's data");
  if (options.port && (*options.port == 0 || *options.port > 65534)) return context.usage("--port takes 1 to 65534");
  if (options.replicas && (*options.replicas < 1 || *options.replicas > kMaxReplicas))
    return context.usage(fmt::format("--replicas takes 1 to {}", kMaxReplicas));
  if (options.host.find_first_of("/ \t\n\"") != std::string::npos || options.host.ends_with(':'))
    return context.usage("HOST is a name or an address of this machine");
  const auto plan = plan_of(context, options);
  if (!plan) return context.fail(plan.error());
  if (const int code = start(context, *plan, options.port.has_value()); code != kExitOk) return code;
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
      "address and the token again. --set writes into the new spate.toml.";
  command.positionals = {{"HOST", "this machine's name or address, as the others reach it", &options->host}};
  command.options = {
      {"--storage", "the folder for this machine's data; required", &options->storage},
      {"--port", "first TCP port (7400, or the next ones that are free)", &options->port},
      {"--replicas", "copies of each new file's data, on different io servers (1)", &options->replicas},
      {"--tls", "encrypt connections (tcp+tls://) under the file system's keys", &options->tls},
      {"--metrics",
       "answer GET /metrics for Prometheus at 127.0.0.1: the first server at this port, the other one at the next",
       &options->metrics},
      {"--enable", "also start it at each login, by a unit of this user's systemd", &options->enable}};
  command.run = [options](Context& context) { return run_init(context, *options); };
  return command;
}

}  // namespace spate::tools
