// SPDX-License-Identifier: Apache-2.0
// The server processes of a deployment on this machine: found by their pid files, started, waited for, stopped.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "config/filesystem_config.h"

namespace spate::tools {

/// The folder is one that `spate up` made: it starts and stops these servers, on this machine. Any other spate.toml is
/// of servers that somebody else starts, each on its host.
bool is_deployment(const std::string& folder);
/// For each of these servers, a line that says on which host it is started, or stopped, and by which command.
std::string commands_on_hosts(const std::string& config_file, const std::vector<config::ServerConfig>& servers,
                              std::string_view verb);

/// While it lives no other `spate up` or `spate down` works on this folder.
struct FolderLock {
  UniqueFd file;
};
/// How long up and down wait for each other: longer than either takes to start or to stop servers.
inline constexpr Duration kLockPatience = std::chrono::seconds(90);
/// Waits up to `patience` for the others; kBusy after it. `folder`/run must exist.
Result<FolderLock> lock_folder(const std::string& folder, Duration patience);

/// A server process of this machine, by its pid file.
struct ServerProcessState {
  ServerId server;
  int pid = 0;         // 0: not running
  bool stale = false;  // a pid file was there, of a process that is gone or another program's
};
ServerProcessState look_at_server(const std::string& folder, ServerId server);
/// The servers that have a pid file, whatever the config file says of them.
std::vector<ServerId> servers_with_pid_files(const std::string& folder);
/// Looks at every server's pid file. A stale one is left for the next start to replace.
std::vector<ServerProcessState> look_at_servers(const std::string& folder, const config::FileSystemConfig& config);
/// Notes a process that runs without a pid file, so that `spate down` finds it. kNotFound: no such process.
Result<void> adopt_server(const std::string& folder, ServerId server, int pid);

/// A spated of this user on this machine, by its command line.
struct RunningServer {
  int pid = 0;
  std::string config_file;
  ServerId server;
};
/// All of them, in this mount name space: also those whose folder has been removed.
std::vector<RunningServer> running_servers();

/// A spated that has been started and has not yet said that it serves.
struct StartedServer {
  ServerId server;
  int pid = 0;
  UniqueFd ready;               // where it says so: a socket as systemd's, sd_notify(3)
  std::uint64_t log_begin = 0;  // of its lines in the log
};
/// Starts `spated` for one server in the background; its output goes to the log.
Result<StartedServer> start_server(const std::string& folder, ServerId server);
/// Waits until it serves, and yields nothing; or why it does not, in its own words, when it has ended or `until` has
/// come.
std::string wait_ready(const std::string& folder, const StartedServer& started, MonoTime until);
/// Sends SIGTERM, waits up to `grace`, then SIGKILL. kTimeout only when even that does not end it.
Result<void> stop_server(const std::string& folder, ServerId server, int pid, Duration grace);
/// Removes what is left of the pid file of a server that is not running.
void forget_server(const std::string& folder, ServerId server);

}  // namespace spate::tools
