// SPDX-License-Identifier: Apache-2.0
// Deployment: a file system on this machine, in one folder: its configuration, keys, servers' stores, pids and logs.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "config/filesystem_config.h"

namespace spate::tools {

/// What `spate up` was asked for.
struct DeploymentPlan {
  std::string folder;
  std::uint32_t meta_servers = 1;  // only 1 today
  std::uint32_t io_servers = 4;    // 1..64
  std::uint32_t first_port = 7400;
  std::string trove = "auto";
};

/// FOLDER/spate.toml
std::string config_path(const std::string& folder);
std::string log_path(const std::string& folder, ServerId server);

/// Writes keys, spate.toml and folders. kExists when there is a spate.toml (which is left as it is).
Result<void> create_deployment(const DeploymentPlan& plan, Random& random);

/// A server process of this machine, by its pid file.
struct ServerProcessState {
  ServerId server;
  int pid = 0;          // 0: not running
  bool stale = false;   // a pid file was there, of a process that is gone or another program's
};
/// Looks at every server's pid file; a stale one is reported and removed.
std::vector<ServerProcessState> look_at_servers(const std::string& folder, const config::FileSystemConfig& config);

/// Starts `spated` for one server in the background; its output goes to the log. The pid.
Result<int> start_server(const std::string& folder, ServerId server);
/// Sends SIGTERM, waits up to `grace`, then SIGKILL. kTimeout only when even that does not end it.
Result<void> stop_server(const std::string& folder, ServerId server, int pid, Duration grace);
/// The last lines of a server's log: why it did not start.
std::string log_tail(const std::string& folder, ServerId server);

}  // namespace spate::tools
