// SPDX-License-Identifier: Apache-2.0
// `spate up`: a whole file system on this machine.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "assembly/locate.h"
#include "assembly/tls_keys.h"
#include "config/load.h"
#include "model/server_url.h"
#include "tools/autostart.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/etcd_members.h"
#include "tools/known.h"
#include "tools/meta_machines.h"
#include "tools/name_space.h"
#include "tools/port_owner.h"
#include "tools/probe.h"
#include "tools/server_control.h"
#include "tools/text.h"
#include "tools/up_down.h"

namespace spate::tools {
namespace {

struct UpOptions {
  DeploymentPlan plan;
  // If the file system exists already, these options must agree with it.
  std::optional<std::uint64_t> io;
  std::optional<std::uint64_t> meta;
  std::optional<std::uint64_t> port;
  std::optional<std::uint64_t> replicas;
  std::optional<std::uint64_t> metrics;
  std::string trove;  // empty: not given
  bool tcp_only = false;
  bool enable = false;
  bool is_new = false;  // this call has created the file system
};

constexpr std::uint32_t kUsualIoServers = 4;
constexpr std::uint32_t kUsualPort = 7400;
constexpr const char* kMetricsOption = "--metrics";

constexpr Duration kStartTimeout = std::chrono::seconds(60);  // a store may have a long log to replay
constexpr Duration kElectionTimeout = std::chrono::seconds(30);

struct Started {
  std::vector<EtcdSupervisor> supervisors;
  std::vector<StartedServer> servers;
  std::size_t running = 0;  // before this call
};

void stop_started(const std::string& folder, const Started& started) {
  for (const StartedServer& server : started.servers) {
    std::ignore = stop_server(folder, server.server, server.pid, std::chrono::seconds(2));
  }
  std::ignore = stop_members(started.supervisors);
}

/// The option, as written, that does not agree with this file system; empty: all do.
std::string wrong_option(const config::FileSystemConfig& config, const UpOptions& options) {
  std::uint64_t io = 0;
  std::uint64_t meta = 0;
  bool trove = true;
  for (const config::ServerConfig& server : config.servers) {
    io += server.roles.io ? 1U : 0U;
    meta += server.roles.meta ? 1U : 0U;
    trove = trove && server.trove == options.plan.trove;
  }
  if (options.io && *options.io != io) return fmt::format("--io {}", *options.io);
  if (options.meta && *options.meta != meta) return fmt::format("--meta {}", *options.meta);
  if (!options.trove.empty() && !trove) return "--trove " + options.trove;
  if (options.replicas && *options.replicas != config.defaults.replicas)
    return fmt::format("--replicas {}", *options.replicas);
  if (options.plan.tls && !assembly::uses_tls(config)) return "--tls";
  if (options.tcp_only && is_shm_url(config.servers.back().urls.front())) return "--tcp-only";
  if (options.metrics && *options.metrics != config.metrics.port) return fmt::format("--metrics {}", *options.metrics);
  // Somebody has removed the TCP address by hand, so its port is unknown.
  const auto& urls = config.servers.front().urls;
  const auto is_tcp = [](const std::string& url) { return config::is_tcp_url(url); };
  const auto is_port = [&](const std::string& url) { return url.ends_with(fmt::format(":{}", *options.port)); };
  const bool port =
      !options.port || std::none_of(urls.begin(), urls.end(), is_tcp) || std::any_of(urls.begin(), urls.end(), is_port);
  return port ? std::string() : fmt::format("--port {}", *options.port);
}

/// Starts the servers that do not run.
Result<Started> start_missing(Context& context, const std::string& folder, const config::FileSystemConfig& config) {
  Started started;
  for (const ServerProcessState& state : look_at_servers(folder, config)) {
    const config::ServerConfig& server = *config.find_server(state.server);
    if (state.pid != 0) {
      ++started.running;
      continue;
    }
    auto there = look_at_port(context, folder, server);
    if (there && *there == PortOwner::kThatServer) {
      ++started.running;
      continue;
    }
    if (!there || *there == PortOwner::kOther) {
      stop_started(folder, started);
      if (!there) return std::move(there).error();
      return Error::told(
          Errc::kBusy,
          fmt::format("another program, or another file system, is at {}, the address of server {}: stop it, or change "
                      "urls in {}",
                      shown_url(server.urls), server.id.value, config_path(folder)));
    }
    if (state.stale && !context.quiet && !context.json)
      print(fmt::format("server {} was not shut down; starting it again\n", state.server.value));
    auto one = start_server(folder, state.server);
    if (!one) {
      stop_started(folder, started);
      return std::move(one).error();
    }
    started.servers.push_back(*std::move(one));
  }
  return started;
}

void tell(Context& context, const std::string& folder, const config::FileSystemConfig& config, const Started& started) {
  if (context.json) {
    context.print_json({{"folder", printable(folder)},
                        {"config", printable(config_path(folder))},
                        {"servers", look_at_servers(folder, config).size()},
                        {"started", started.servers.size()},
                        {"running_before", started.running}});
    return;
  }
  if (context.quiet) return;
  if (started.servers.empty() && started.running == 0) {
    print(fmt::format("No server of the file system in {} is on this machine{}.\n", folder,
                      members_of(folder).empty() ? "" : ", only a member of etcd, which runs"));
    return;
  }
  if (started.servers.empty()) {
    print(fmt::format("The file system in {} is running already ({} servers). Stop it with `spate down`.\n", folder,
                      started.running));
    return;
  }
  print(
      fmt::format("Spate is up: {}, data in {}\n\n"
                  "  spate cp -r /usr/include spate:/include   copy a tree in\n"
                  "  spate ls -l spate:/                       look at it\n"
                  "  spate df                                  how full it is\n"
                  "  spate down                                stop; `spate up` brings everything back\n",
                  counted(look_at_servers(folder, config).size(), "server"), folder));
}

/// Waits until one of several meta servers leads: before that no command works.
int wait_for_leader(Context& context, const std::string& folder, const config::FileSystemConfig& config) {
  const auto is_meta = [](const config::ServerConfig& server) { return server.roles.meta; };
  if (std::ranges::count_if(config.servers, is_meta) < 2 || look_at_servers(folder, config).empty()) return kExitOk;
  const auto leads = wait_for_meta(config_path(folder), kElectionTimeout);
  if (!leads && is_joined(folder)) {  // this machine may be the first one after all have lost power
    return context.tell("the servers of this machine run. No meta server leads yet: others may still have to start"),
           kExitOk;
  }
  return leads ? kExitOk : context.fail(leads.error(), "the servers run, but no meta server leads yet");
}

int start_all(Context& context, const UpOptions& options) {
  const std::string& folder = options.plan.folder;
  auto loaded = config::load_file(config_path(folder), {});
  if (!loaded) return context.fail(loaded.error());
  const config::FileSystemConfig& config = loaded->config;
  if (const std::string wrong = wrong_option(config, options); !wrong.empty()) {
    return context.usage(fmt::format(
        "{} does not apply: {} holds a file system of {} servers already, which `spate up --dir {}` starts as it is; "
        "choose another folder with --dir for a new one",
        wrong, folder, config.servers.size(), shell_word(folder)));
  }
  const auto is_by_set = [](const config::Override& one) { return one.origin != kMetricsOption; };
  if (!options.is_new && std::ranges::any_of(options.plan.settings, is_by_set)) {
    return context.usage(fmt::format(
        "--set does not apply: {} holds a file system already; write it into {}, then `spate down` and `spate up`",
        folder, config_path(folder)));
  }
  SystemClock clock;
  const MonoTime until = clock.now() + kStartTimeout;
  auto supervisors = start_members(folder, until);
  if (!supervisors) return context.fail(supervisors.error());
  const auto has_record = make_first_record(folder, config);
  auto started = has_record ? start_missing(context, folder, config) : Result<Started>(has_record.error());
  if (!started) {
    std::ignore = stop_members(*supervisors);
    return context.fail(started.error());
  }
  started->supervisors = *std::move(supervisors);
  int code = kExitOk;
  for (const StartedServer& server : started->servers) {
    const std::string why_not = wait_ready(folder, server, until);
    if (!why_not.empty()) code = context.fail(why_not);
  }
  if (code != kExitOk) {
    stop_started(folder, *started);
    return code;
  }
  remember_file_system(config_path(folder));
  if (wait_for_leader(context, folder, config) != kExitOk) return kExitFailed;
  tell(context, folder, config, *started);
  return kExitOk;
}

/// The ports of a new file system: those of --port, else the first free ones from the usual port on.
Result<void> choose_ports(DeploymentPlan& plan, bool given) {
  constexpr std::uint32_t kTries = 100;
  const std::uint32_t count = port_count(plan);
  const auto first = check_ports(plan);
  if (first || given) return first;
  for (std::uint32_t i = 1; i < kTries; ++i) {
    plan.first_port = kUsualPort + i * count;
    if (check_ports(plan)) return {};
  }
  return first;
}

/// Creates the file system if there is none, and takes the folder's lock.
Result<FolderLock> open_folder(UpOptions& options) {
  DeploymentPlan& plan = options.plan;
  SPATE_TRY(std::ignore, check_owner(plan.folder));
  SPATE_TRY(const FolderState before, inspect_folder(plan.folder));
  if (before == FolderState::kFree) {  // make nothing if settings or ports are wrong
    if (plan.etcd_members > 0 || !plan.metas_elsewhere.empty()) {
      SPATE_TRY(std::ignore, etcd_program());
    }
    SPATE_TRY(std::ignore, planned_config(plan, FsId(1)));
    SPATE_TRY(std::ignore, choose_ports(plan, options.port.has_value()));
  }
  SPATE_TRY(std::ignore, prepare_folder(plan.folder));
  SPATE_TRY(FolderLock lock, lock_folder(plan.folder, kLockTimeout));
  SPATE_TRY(const FolderState state, inspect_folder(plan.folder));  // another `up` may have made it meanwhile
  if (state == FolderState::kFree) {
    SystemRandom random;
    SPATE_TRY(std::ignore, create_deployment(plan, random));
    options.is_new = true;
  }
  return lock;
}

/// The folder of --fs or SPATE_FS, or of the spate.toml that they name. Empty: neither is given.
std::string named_folder(const Context& context) {
  const char* const variable = std::getenv("SPATE_FS");
  const std::string name = !context.fs.empty() ? context.fs : variable == nullptr ? "" : variable;
  const std::filesystem::path path(name);
  return path.filename() == "spate.toml" ? path.parent_path().string() : name;
}

/// The file system started last, if it still exists, so that `spate up` reverses `spate down`.
std::string usual_folder() {
  std::ifstream in(assembly::current_file());
  std::string config;
  std::error_code ignored;
  if (std::getline(in, config) && std::filesystem::exists(config, ignored))
    return std::filesystem::path(config).parent_path().string();
  return default_folder();
}

int enable(Context& context, const std::string& folder) {
  const auto done = enable_autostart(folder);
  if (!done) return context.fail(done.error(), "--enable");
  if (context.quiet || context.json) return kExitOk;
  const std::string unit = shell_word(unit_name(folder));
  print("It starts when you log in, by the unit " + unit + ". `loginctl enable-linger` starts it when the machine\n" +
        "does; `systemctl --user disable " + unit + "` ends that.\n");
  return kExitOk;
}

int run_up(Context& context, UpOptions& options) {
  DeploymentPlan& plan = options.plan;
  plan.io_servers = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.io.value_or(kUsualIoServers), 65));
  plan.first_port = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.port.value_or(kUsualPort), 65536));
  if (plan.io_servers == 0 || plan.io_servers > 64) return context.usage("--io takes 1 to 64");
  if (options.meta.value_or(1) < 1 || options.meta.value_or(1) > config::kMostMetaServers)
    return context.usage("--meta takes 1 to 5");
  plan.meta_servers = static_cast<std::uint32_t>(options.meta.value_or(1));
  if (!options.trove.empty()) {
    const auto trove = trove_kind(options.trove);
    if (!trove) return context.usage(trove.error().message());
    plan.trove = *trove;
  }
  if (!plan.folder.empty() && !context.fs.empty()) return context.usage("--dir and --fs exclude each other");
  auto settings = settings_of(context, options.metrics);
  if (!settings) return context.usage(settings.error().message());
  plan.settings = *std::move(settings);
  if (options.replicas && (*options.replicas < 1 || *options.replicas > kMaxReplicas))
    return context.usage(fmt::format("--replicas takes 1 to {}", kMaxReplicas));
  if (options.replicas && options.io && *options.replicas > *options.io)
    return context.usage(fmt::format("--replicas {0} needs as many io servers: --io {0}", *options.replicas));
  if (options.replicas.value_or(1) > 1) plan.replicas = static_cast<std::uint32_t>(*options.replicas);
  const bool has_coordinator = std::ranges::any_of(
      plan.settings, [](const config::Override& setting) { return setting.key == "meta.coordinator"; });
  if (plan.meta_servers > 1 && !has_coordinator) plan.etcd_members = kVotes;
  if (plan.first_port == 0 || plan.first_port + port_count(plan) > 65536)
    return context.usage("--port takes 1 to 65535, less the number of servers");
  plan.shm = !plan.tls && !options.tcp_only;  // TLS allows no other network beside it
  if (plan.folder.empty()) plan.folder = named_folder(context);
  if (plan.folder.empty()) plan.folder = usual_folder();
  if (plan.folder.empty()) return context.fail("there is no home folder of this user (HOME): name a folder with --dir");
  std::error_code ignored;
  plan.folder = std::filesystem::absolute(plan.folder, ignored).lexically_normal().string();
  while (plan.folder.size() > 1 && plan.folder.ends_with('/')) plan.folder.pop_back();
  const auto lock = open_folder(options);
  if (!lock) return context.fail(lock.error());
  const int code = start_all(context, options);
  return code == kExitOk && options.enable ? enable(context, plan.folder) : code;
}

}  // namespace

std::string default_folder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != '\0') return std::string(data) + "/spate";
  // A folder that others can write to is not used instead, since they could prepare it.
  const std::string home = assembly::own_home();
  return home.empty() ? std::string() : home + "/.local/share/spate";
}

Result<std::vector<config::Override>> settings_of(const Context& context, std::optional<std::uint64_t> metrics) {
  std::vector<config::Override> settings;
  for (const std::string& argument : context.overrides) {
    SPATE_TRY(auto one, config::override_from_argument(argument));
    settings.push_back(std::move(one));
  }
  if (metrics) settings.push_back({"metrics.port", std::to_string(*metrics), kMetricsOption});
  return settings;
}

int make_and_start(Context& context, const DeploymentPlan& plan, bool port_is_given) {
  UpOptions options;
  options.plan = plan;
  if (port_is_given) options.port = plan.first_port;
  const auto lock = open_folder(options);
  return lock ? start_all(context, options) : context.fail(lock.error());
}

int start_file_system(Context& context, const std::string& folder) {
  UpOptions options;
  options.plan.folder = folder;
  return run_up(context, options);
}

Command make_up() {
  auto options = std::make_shared<UpOptions>();
  Command command;
  command.name = "up";
  command.group = "Start and stop";
  command.summary = "start a file system on this machine (makes it the first time)";
  command.details =
      "Starts one meta server, or --meta servers with the same name space, and --io io servers, on loopback.\n"
      "Several meta servers need etcd: three processes of it run below the folder, unless --set meta.coordinator\n"
      "names others. A file system that exists in --dir is started again as it was: --io, --port, --replicas and\n"
      "--trove are refused if they differ from it. --set writes into the spate.toml of a new file system. --fs and\n"
      "SPATE_FS can name the folder, too.";
  command.options = {
      {"--dir",
       "the folder that holds everything (that of the last `spate up`, else ~/.local/share/spate)",
       &options->plan.folder,
       false,
       {},
       false,
       known_folders},
      {"--io", "io servers, for a new file system (4)", &options->io},
      {"--replicas", "copies of each new file's data, on different io servers, for a new file system (1)",
       &options->replicas},
      {"--meta", "meta servers, for a new file system (1); several need the package etcd-server", &options->meta},
      {"--port", "first TCP port, for a new file system (7400, or the next ones that are free)", &options->port},
      {"--trove", "storage: auto, uring, pool or mem (nothing is kept), for a new file system", &options->trove},
      {"--tls", "encrypt connections (tcp+tls://) under the file system's keys, for a new file system",
       &options->plan.tls},
      {"--tcp-only", "reach the servers by TCP only, not by shared memory too, for a new file system",
       &options->tcp_only},
      {kMetricsOption,
       "answer GET /metrics for Prometheus at 127.0.0.1: the first server at this port, each other one at the next",
       &options->metrics},
      {"--enable", "also start it at each login, by a unit of this user's systemd", &options->enable}};
  command.run = [options](Context& context) { return run_up(context, *options); };
  return command;
}

}  // namespace spate::tools
