// SPDX-License-Identifier: Apache-2.0
// Deployment: a file system on this machine, in one folder: its configuration, keys, servers' stores, pids and logs.
// Its processes: server_control.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "config/load.h"

namespace spate::tools {

/// What `spate up` was asked for.
struct DeploymentPlan {
  std::string folder;
  std::uint32_t meta_servers = 1;  // 1..5; several need settings with meta.coordinator
  std::uint32_t io_servers = 4;    // 1..64
  std::uint32_t first_port = 7400;
  std::string trove = "auto";
  std::vector<config::Override> settings = {};  // what spate.toml says besides
};

/// FOLDER/spate.toml
std::string config_path(const std::string& folder);
std::string log_path(const std::string& folder, ServerId server);
/// The value of --trove; kAuto for any other word.
config::TroveKind trove_kind(const std::string& name);
/// "server-3"
std::string server_name(ServerId server);

/// A folder that is there is this user's, and nobody writes to it but its group: who prepares it says which processes
/// are to be ended, and where logs are written.
Result<void> check_owner(const std::string& folder);

/// What a folder holds, as far as `spate up` is concerned.
enum class FolderState : std::uint8_t {
  kFree,        // nothing, or what is left of a creation that was cut short: a file system may be made here
  kDeployment,  // a spate.toml
};
/// An error for a folder that is somebody else's, or holds a file system's data without its spate.toml.
Result<FolderState> inspect_folder(const std::string& folder);

/// Makes the folder and its sub-folder `run`, so that it can be locked.
Result<void> prepare_folder(const std::string& folder);
/// What the spate.toml of this plan holds. kInvalidArgument for settings that are none.
Result<config::FileSystemConfig> planned_config(const DeploymentPlan& plan, FsId id);
/// Writes keys, spate.toml and folders of servers into a prepared, locked folder. Whatever an earlier try has left is
/// replaced.
Result<void> create_deployment(const DeploymentPlan& plan, Random& random);
/// The folder of a server that is to be made.
Result<void> prepare_server(const std::string& folder, ServerId server);
/// Removes what `spate up` has made in the folder, with all data, and the folder if nothing else is in it. Its servers
/// have ended.
Result<void> remove_deployment(const std::string& folder);
/// kBusy, naming the port, when somebody listens on one of the ports that the plan wants.
Result<void> check_ports(const DeploymentPlan& plan);

/// A server of a new deployment has no stores yet, and is told to make them (`spated --format`), until it has served
/// once.
bool is_unformatted(const std::string& folder, ServerId server);
void set_formatted(const std::string& folder, ServerId server);

}  // namespace spate::tools
