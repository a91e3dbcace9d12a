// SPDX-License-Identifier: Apache-2.0
// `spate list`, `spate destroy`.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/load.h"
#include "tools/autostart.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/known.h"
#include "tools/mounts.h"
#include "tools/name_space.h"
#include "tools/server_control.h"
#include "tools/text.h"
#include "tools/up_down.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

/// This machine's knowledge of a file system.
struct Local {
  std::size_t configured = 0;  // servers in its spate.toml that belong here; 0: none, or the file cannot be read
  bool readable = false;       // that file
  std::size_t running = 0;     // on this machine
  bool there = false;          // its spate.toml exists
};

std::map<std::string, Local> local_file_systems() {
  std::map<std::string, Local> all;
  for (const std::string& file : known_file_systems()) all[file];
  std::error_code ignored;
  for (const std::string& usual : {default_folder() + "/spate.toml", std::string(kMachineConfig)})
    if (usual.starts_with('/') && fs::exists(usual, ignored)) all[usual];
  for (const RunningServer& one : running_servers()) ++all[one.config_file].running;
  for (auto& [file, local] : all) {
    local.there = fs::exists(file, ignored);
    const auto loaded = config::load_file(file, {});
    local.readable = loaded.has_value();
    if (loaded) local.configured = look_at_servers(fs::path(file).parent_path().string(), loaded->config).size();
  }
  std::erase_if(all, [](const auto& one) { return !one.second.there && one.second.running == 0; });
  return all;
}

std::string state_of(const std::string& file, const Local& local) {
  const std::string folder = fs::path(file).parent_path().string();
  if (!local.there)
    return fmt::format("removed, but {} still run; `spate down --dir {}` ends them", counted(local.running, "server"),
                       shell_word(folder));
  if (!local.readable) return "its spate.toml cannot be read; `spate config check` says why";
  if (local.configured == 0) return "used from here; its servers are on other machines";
  if (!is_deployment(folder))
    return fmt::format("{}, {} of them on this machine", counted(local.configured, "server"), local.running);
  if (local.running == 0) return "down";
  if (local.running >= local.configured) return fmt::format("up, {}", counted(local.running, "server"));
  return fmt::format("{} of {} run; `spate up --dir {}` starts the others", local.running,
                     counted(local.configured, "server"), shell_word(folder));
}

/// The mounts of this user; for root, all mounts.
std::vector<MountPoint> own_mounts() {
  std::vector<MountPoint> all = spate_mounts();
  const uid_t self = ::geteuid();
  std::erase_if(all, [&](const MountPoint& one) { return self != 0 && one.user != self; });
  return all;
}

int run_list(Context& context) {
  const auto all = local_file_systems();
  const auto mounts = own_mounts();
  if (context.json) {
    nlohmann::json systems = nlohmann::json::array();
    for (const auto& [file, local] : all)
      systems.push_back({{"config", printable(file)},
                         {"servers", local.configured},
                         {"running", local.running},
                         {"removed", !local.there}});
    nlohmann::json mounted = nlohmann::json::array();
    for (const MountPoint& one : mounts)
      mounted.push_back(
          {{"directory", printable(one.directory)}, {"source", printable(one.source)}, {"ended", has_ended(one)}});
    context.print_json({{"file_systems", systems}, {"mounts", mounted}});
    return kExitOk;
  }
  std::string text;
  for (const auto& [file, local] : all) {
    text += fmt::format("{}  {}\n", printable(fs::path(file).parent_path().string()), state_of(file, local));
  }
  for (const MountPoint& one : mounts) {
    const std::string ended = has_ended(one) ? "  ended; `spate umount " + shell_word(one.directory) + "`" : "";
    text += fmt::format("{}  mount of {}{}\n", printable(one.directory), printable(one.source), printable(ended));
  }
  print(text.empty() ? "No file system and no mount of yours; `spate up` makes a file system.\n" : text);
  return kExitOk;
}

struct DestroyOptions {
  std::string folder;
  bool yes = false;
};

/// Whether the user typed "yes" at the terminal.
bool agrees(const std::string& folder) {
  const bool joined = is_joined(folder);
  std::fprintf(stderr,
               joined ? "This removes this machine's part of a file system of several machines, in %s: files with data "
                        "in it are lost. "
                        "Type yes to go on: "
                      : "This removes the file system in %s with everything in it. Type yes to go on: ",
               printable(folder).c_str());
  std::array<char, 16> answer{};
  return std::fgets(answer.data(), answer.size(), stdin) != nullptr && std::strcmp(answer.data(), "yes\n") == 0;
}

/// Stores that spate.toml puts elsewhere are not made by `spate up`, and stay.
std::string stores_elsewhere(const std::string& folder) {
  const auto loaded = config::load_file(config_path(folder), {});
  std::string text;
  if (!loaded) return text;
  for (const config::ServerConfig& server : loaded->config.servers) {
    std::vector<std::string> stores = server.storage;
    stores.push_back(server.keyval);
    for (const std::string& store : stores)
      if (!store.starts_with(folder + "/")) text += "\n  left: " + printable(store);
  }
  return text;
}

int run_destroy(Context& context, const DestroyOptions& options) {
  const auto folder = folder_of(context, options.folder);
  if (!folder) return context.fail(folder.error());
  if (const auto own = check_owner(*folder); !own) return context.fail(own.error());
  std::error_code ignored;
  if (!fs::exists(config_path(*folder), ignored)) return context.fail(no_file_system(config_path(*folder)));
  if (!is_deployment(*folder))
    return context.fail("`spate up` has not made " + config_path(*folder) +
                        ", so `spate destroy` removes nothing of it");
  if (const auto unused = check_no_mounts(*folder); !unused) return context.fail(unused.error(), *folder);
  if (!options.yes && ::isatty(STDIN_FILENO) == 0)
    return context.usage("destroy asks on a terminal; elsewhere --yes says that " + *folder +
                         " and all its data may go");
  if (!options.yes && !agrees(*folder)) return context.fail("nothing was removed");
  const bool quiet = std::exchange(context.quiet, true);
  const int stopped = stop_file_system(context, *folder);
  context.quiet = quiet;
  if (stopped != kExitOk) return stopped;
  const std::string elsewhere = stores_elsewhere(*folder);
  const auto removed = remove_deployment(*folder);
  if (!removed) return context.fail(removed.error());
  const std::string next = forget_file_system(config_path(*folder));
  disable_autostart(*folder);
  if (context.quiet || context.json) return kExitOk;
  print(fmt::format("Removed {}.{}\n", printable(*folder), elsewhere));
  if (!next.empty()) print(fmt::format("Commands use {} now.\n", printable(fs::path(next).parent_path().string())));
  return kExitOk;
}

}  // namespace

Command make_list() {
  Command command;
  command.name = "list";
  command.group = "Start and stop";
  command.summary = "list the file systems and mounts of this user on this machine";
  command.run = [](Context& context) { return run_list(context); };
  return command;
}

Command make_destroy() {
  auto options = std::make_shared<DestroyOptions>();
  Command command;
  command.name = "destroy";
  command.group = "Start and stop";
  command.summary = "remove a file system that `spate up` made, with all its data";
  command.options = {{"--dir", "the folder given to `spate up`", &options->folder, false, {}, false, known_folders},
                     {"-y,--yes", "do not ask", &options->yes}};
  command.run = [options](Context& context) { return run_destroy(context, *options); };
  return command;
}

}  // namespace spate::tools
