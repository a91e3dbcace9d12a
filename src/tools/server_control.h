// SPDX-License-Identifier: Apache-2.0
// The server processes of a deployment on this machine: finds them by their pid files, starts them, waits for them,
// stops them.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "config/filesystem_config.h"

namespace spate::tools {

/// Whether `spate up` made the folder: then it starts and stops these servers, on this machine. The servers of any
/// other spate.toml are started by other means, each on its host.
bool is_deployment(const std::string& folder);
/// A line for each of these servers: the host and the command that starts or stops it.
std::string commands_on_hosts(const std::string& config_file, const std::vector<config::ServerConfig>& servers,
                              std::string_view verb);

/// While it lives, no other `spate up`, `spate down` or `spate server add` works on this folder.
struct FolderLock {
  UniqueFd file;
};
/// The longest time that up and down wait for each other: longer than either needs to start or stop servers.
inline constexpr Duration kLockTimeout = std::chrono::seconds(90);
/// Waits up to `timeout` for others; then kBusy. `folder`/run must exist.
Result<FolderLock> lock_folder(const std::string& folder, Duration timeout);
/// The same for the spate.toml of a folder that `spate up` has not made.
Result<FolderLock> lock_configuration(const std::string& folder, Duration timeout);

/// A server process of this machine, by its pid file.
struct ServerProcessState {
  ServerId server;
  int pid = 0;         // 0: not running
  bool stale = false;  // there was a pid file, but its process is gone, or the pid is another program's
};
ServerProcessState look_at_server(const std::string& folder, ServerId server);
/// The servers with a pid file, even if the config file does not have them.
std::vector<ServerId> servers_with_pid_files(const std::string& folder);
/// Looks at the pid file of each server of this machine. A stale one is left for the next start to replace.
std::vector<ServerProcessState> look_at_servers(const std::string& folder, const config::FileSystemConfig& config);
/// Makes a pid file for a process that runs without one, so that `spate down` finds it. kNotFound: no such process.
Result<void> adopt_server(const std::string& folder, ServerId server, int pid);

/// A spated of this user on this machine, by its command line.
struct RunningServer {
  int pid = 0;
  std::string config_file;
  ServerId server;
};
/// All of them in this mount name space, also those whose folder was removed.
std::vector<RunningServer> running_servers();

/// A spated that was started and has not reported yet that it serves.
struct StartedServer {
  ServerId server;
  int pid = 0;
  UniqueFd ready;               // the socket for that report, as systemd's: sd_notify(3)
  std::uint64_t log_begin = 0;  // offset of its lines in the log
};
/// Starts `spated` for one server in the background; its output goes to the log.
Result<StartedServer> start_server(const std::string& folder, ServerId server);
/// Waits until it serves. Yields an empty text; or the reason in the server's own words, if it has ended or `until` has
/// come.
std::string wait_ready(const std::string& folder, const StartedServer& started, MonoTime until);
/// Sends SIGTERM, waits up to `grace`, then sends SIGKILL. kTimeout: even that does not end it.
Result<void> stop_server(const std::string& folder, ServerId server, int pid, Duration grace);
/// Removes the pid file of a server that is not running.
void forget_server(const std::string& folder, ServerId server);

}  // namespace spate::tools
