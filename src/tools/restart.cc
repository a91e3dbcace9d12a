// SPDX-License-Identifier: Apache-2.0
// `spate restart`, `spate logs`.
#include <unistd.h>

#include <cerrno>

#include "config/load.h"
#include "tools/commands.h"
#include "tools/deployment.h"
#include "tools/etcd_members.h"
#include "tools/known.h"
#include "tools/server_control.h"
#include "tools/text.h"
#include "tools/up_down.h"

namespace spate::tools {
namespace {

struct LogsOptions {
  std::string folder;
  std::vector<std::string> servers;
  std::uint64_t lines = 20;
  bool follow = false;
};

int run_restart(Context& context, const std::string& given) {
  const auto folder = folder_of(context, given);
  if (!folder) return context.fail(folder.error());
  const int stopped = stop_file_system(context, *folder);
  if (stopped != kExitOk) return stopped;
  context.fs.clear();  // the folder names it
  return start_file_system(context, *folder);
}

/// The log files of the named servers, or of all.
Result<std::vector<std::string>> logs_of(const std::string& folder, const std::vector<std::string>& servers) {
  if (!is_deployment(folder))
    return Error::told(
        Errc::kNotFound,
        folder + " is not one that `spate up` made: see `journalctl -u 'spated@*'` on the servers' hosts");
  SPATE_TRY(const auto loaded, config::load_file(config_path(folder), {}));
  std::vector<std::string> files;
  for (const config::ServerConfig& server : loaded.config.servers) {
    const std::string number = std::to_string(server.id.value);
    const bool named = servers.empty() || std::find(servers.begin(), servers.end(), number) != servers.end();
    if (!named || !is_here(folder, server.id)) continue;
    files.push_back(log_path(folder, server.id));
  }
  for (const std::string& member : members_of(folder)) {
    if (servers.empty() || std::find(servers.begin(), servers.end(), member) != servers.end())
      files.push_back(member_log(folder, member));
  }
  if (files.empty() || (!servers.empty() && files.size() != servers.size()))
    return Error::told(Errc::kNotFound,
                       "not all of these servers are in " + config_path(folder) + "; `spate status` lists them");
  return files;
}

int run_logs(Context& context, const LogsOptions& options) {
  const auto folder = folder_of(context, options.folder);
  if (!folder) return context.fail(folder.error());
  const auto files = logs_of(*folder, options.servers);
  if (!files) return context.fail(files.error());
  const std::string lines = std::to_string(options.lines);
  // -F: follow the file's name, even if logrotate replaces the file.
  std::vector<const char*> words = {"tail", "-n", lines.c_str()};
  if (options.follow) words.push_back("-F");
  words.push_back("--");
  for (const std::string& file : *files) words.push_back(file.c_str());
  words.push_back(nullptr);
  ::execvp(words.front(), const_cast<char**>(words.data()));
  return context.fail(errno_error(errno, "start tail"));
}

}  // namespace

Command make_restart() {
  auto folder = std::make_shared<std::string>();
  Command command;
  command.name = "restart";
  command.group = "Start and stop";
  command.summary = "stop and start the servers that `spate up` started; mounts and open files go on";
  command.options = {{"--dir", "the folder given to `spate up`", folder.get(), false, {}, false, known_folders}};
  command.run = [folder](Context& context) { return run_restart(context, *folder); };
  return command;
}

Command make_logs() {
  auto options = std::make_shared<LogsOptions>();
  Command command;
  command.name = "logs";
  command.group = "Start and stop";
  command.summary = "print the end of the servers' logs";
  command.positionals = {{"SERVER", "numbers of servers, or etcd-1 to etcd-3 (all)", &options->servers}};
  command.options = {{"--dir", "the folder given to `spate up`", &options->folder, false, {}, false, known_folders},
                     {"-n,--lines", "number of lines of each log (20)", &options->lines},
                     {"-f,--follow", "then print new lines, until Ctrl-C", &options->follow}};
  command.run = [options](Context& context) { return run_logs(context, *options); };
  return command;
}

}  // namespace spate::tools
