// SPDX-License-Identifier: Apache-2.0
// `spate up`: a whole file system on this machine.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/core.h>

#include "config/load.h"
#include "tools/deployment.h"
#include "tools/probe.h"
#include "tools/up_down.h"

namespace spate::tools {
namespace {

struct UpOptions {
  DeploymentPlan plan;
  std::uint64_t io = 4;
  std::uint64_t meta = 1;
  std::uint64_t port = 7400;
};

constexpr Duration kStartTimeout = std::chrono::seconds(20);

void remember_as_current(const std::string& config_file) {
  const std::filesystem::path path = current_file();
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream(path) << config_file << "\n";
}

/// Waits until the server answers; its death or the timeout is an error that quotes its log.
Result<void> wait_ready(const std::string& folder, const config::ServerConfig& server, int pid) {
  SystemClock clock;
  const MonoTime until = clock.now() + kStartTimeout;
  while (clock.now() < until) {
    if (answers(server.urls)) return {};
    if (::waitpid(pid, nullptr, WNOHANG) == pid) {
      return Error(Errc::kIoError, fmt::format("server {} ended at once; its log says:{}\n  what now", server.id.value,
                                               log_tail(folder, server.id)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return Error(Errc::kTimeout, fmt::format("server {} does not answer at {}; see {}", server.id.value, server.urls.front(),
                                           log_path(folder, server.id)));
}

int start_all(Context& context, const std::string& folder) {
  auto loaded = config::load_file(config_path(folder), {});
  if (!loaded) return context.fail(loaded.error());
  const config::FileSystemConfig& config = loaded->config;
  std::vector<std::pair<const config::ServerConfig*, int>> started;
  std::size_t running = 0;
  for (const ServerProcessState& state : look_at_servers(folder, config)) {
    const config::ServerConfig* server = config.find_server(state.server);
    if (state.stale && !context.quiet) print(fmt::format("server {} was not shut down; starting it again\n", state.server.value));
    if (state.pid != 0) {
      ++running;
      continue;
    }
    auto pid = start_server(folder, state.server);
    if (!pid) return context.fail(pid.error());
    started.emplace_back(server, *pid);
  }
  for (const auto& [server, pid] : started) {
    auto ready = wait_ready(folder, *server, pid);
    if (ready) continue;
    for (const auto& [other, other_pid] : started) std::ignore = stop_server(folder, other->id, other_pid, std::chrono::seconds(2));
    return context.fail(ready.error());
  }
  remember_as_current(config_path(folder));
  if (context.quiet) return kExitOk;
  if (started.empty()) {
    print(fmt::format("The file system in {} is running already ({} servers). Stop it with `spate down`.\n", folder, running));
    return kExitOk;
  }
  print(fmt::format("Spate is up: {} servers, data in {}\n\n"
                    "  spate cp -r /usr/include spate:/include   copy a tree in\n"
                    "  spate ls -l spate:/                       look at it\n"
                    "  spate df                                  how full it is\n"
                    "  spate down                                stop; `spate up` brings everything back\n",
                    config.servers.size(), folder));
  return kExitOk;
}

int run_up(Context& context, UpOptions& options) {
  if (options.io < 1 || options.io > 64) return context.usage("--io takes 1 to 64");
  if (options.meta != 1) return context.usage("--meta takes 1: this version keeps the name space on one server");
  if (options.port < 1 || options.port + options.io > 65535) return context.usage("--port takes 1 to 65535, less the number of servers");
  const std::string& trove = options.plan.trove;
  if (trove != "auto" && trove != "uring" && trove != "pool" && trove != "mem") return context.usage("--trove takes auto, uring, pool or mem");
  DeploymentPlan& plan = options.plan;
  if (plan.folder.empty()) plan.folder = default_folder();
  std::error_code ignored;
  plan.folder = std::filesystem::absolute(plan.folder, ignored).lexically_normal().string();
  while (plan.folder.size() > 1 && plan.folder.ends_with('/')) plan.folder.pop_back();
  plan.io_servers = static_cast<std::uint32_t>(options.io);
  plan.first_port = static_cast<std::uint32_t>(options.port);
  SystemRandom random;
  auto created = create_deployment(plan, random);
  if (!created && created.code() != Errc::kExists) return context.fail(created.error());
  return start_all(context, plan.folder);
}

}  // namespace

std::string default_folder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != '\0') return std::string(data) + "/spate";
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/.local/share/spate";
}

Command make_up() {
  auto options = std::make_shared<UpOptions>();
  Command command;
  command.name = "up";
  command.group = "Start and stop";
  command.summary = "start a file system on this machine (makes it the first time)";
  command.details = "One meta server and --io io servers, on loopback. An existing one in --dir is started again as it was.";
  command.options = {{"--dir", "the folder that holds everything (~/.local/share/spate)", &options->plan.folder},
                     {"--io", "io servers, for a new file system (4)", &options->io},
                     {"--meta", "meta servers, for a new file system (1)", &options->meta},
                     {"--port", "first TCP port, for a new file system (7400)", &options->port},
                     {"--trove", "storage: auto, uring, pool or mem (nothing is kept), for a new file system", &options->plan.trove}};
  command.run = [options](Context& context) { return run_up(context, *options); };
  return command;
}

}  // namespace spate::tools
