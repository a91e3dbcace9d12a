// SPDX-License-Identifier: Apache-2.0
// Deployment: a file system on this machine in one folder: its configuration, keys, servers' stores, pid files and
// logs. server_control.h has its processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "config/load.h"
#include "tools/join_token.h"

namespace spate::tools {

/// The options of `spate up`.
struct DeploymentPlan {
  std::string folder;
  std::uint32_t meta_servers = 1;  // 1..5
  std::uint32_t etcd_members = 0;  // with several meta servers, unless the settings name meta.coordinator
  /// HOST:PORT of the meta servers on other machines, which join later. Then this machine has one meta server and one
  /// member of etcd. Its io server, for which a port is kept, is to be added afterwards: whichever meta server leads
  /// knows the servers of its own spate.toml and those that were added.
  std::vector<std::string> metas_elsewhere = {};
  std::uint32_t io_servers = 4;  // 1..64
  std::uint32_t first_port = 7400;
  std::string host = "127.0.0.1";  // this machine in the servers' addresses
  std::string rack = {};           // of this machine; empty: not known
  std::uint32_t replicas = 1;      // of new files, 1..kMaxReplicas
  std::uint32_t min_copies = 1;    // that a write to a mirrored file needs, 1..kMaxReplicas
  config::TroveKind trove = config::TroveKind::kAuto;
  bool tls = false;  // tcp+tls:// addresses, encrypted under the file system's keys
  bool shm = false;  // shared memory addresses as well: clients on this machine use them, and datafiles by themselves
  std::vector<config::Override> settings = {};  // further settings for spate.toml
};

/// kInvalidArgument unless it is empty or is_rack_name().
Result<void> check_rack(const std::string& rack);

/// FOLDER/spate.toml
/// The file of the server key of a folder of `spate up`, `spate init` or `spate join`.
std::string server_key_path(const std::string& folder);
std::string config_path(const std::string& folder);
std::string log_path(const std::string& folder, ServerId server);
/// The value of --trove: one of the words that the key servers.trove takes. kInvalidArgument for any other one.
Result<config::TroveKind> trove_kind(const std::string& name);
/// "server-3"
std::string server_name(ServerId server);
/// The address of a server of the folder for clients on this machine: shm://FOLDER/run/server-3.sock
std::string shm_url(const std::string& folder, ServerId server);

/// Checks that an existing folder is this user's, and that nobody outside its group can write to it. A user who can
/// write to it chooses which processes are ended, and where logs are written.
Result<void> check_owner(const std::string& folder);

/// The contents of a folder, as far as `spate up` is concerned.
enum class FolderState : std::uint8_t {
  kFree,        // nothing, or the remains of an interrupted creation: a file system may be made here
  kDeployment,  // a spate.toml
};
/// Fails for a folder of another user, and for one with a file system's data but without its spate.toml.
Result<FolderState> inspect_folder(const std::string& folder);

/// Makes the folder and its sub-folder `run`, so that it can be locked.
Result<void> prepare_folder(const std::string& folder);
/// The configuration of this plan. kInvalidArgument for invalid settings.
Result<config::FileSystemConfig> planned_config(const DeploymentPlan& plan, FsId id);
/// Writes keys, spate.toml and folders of servers into a prepared, locked folder. Replaces the remains of an earlier
/// attempt.
Result<void> create_deployment(const DeploymentPlan& plan, Random& random);
/// Makes the folder of a new server.
Result<void> prepare_server(const std::string& folder, ServerId server);
/// Removes everything that `spate up` has made in the folder, with all data, and the folder itself if nothing else is
/// in it. Its servers must have ended.
Result<void> remove_deployment(const std::string& folder);
/// How many ports it takes, from first_port on.
std::uint32_t port_count(const DeploymentPlan& plan);
/// kBusy, naming the port, if somebody listens on one of the ports of the plan.
Result<void> check_ports(const DeploymentPlan& plan);

/// Writes the keys and a spate.toml with the meta servers of other machines into a prepared folder: the file system of
/// `meta_urls` is used from here. The token names the first of them, and the numbers of the others follow. `own`: the
/// one that will run here; its member of etcd is asked first. 0: none. `prepare_server` and an entry in spate.toml add
/// a server of this machine. kInvalidArgument for invalid settings.
Result<void> create_joined(const std::string& folder, const JoinToken& token, const std::vector<std::string>& meta_urls,
                           ServerId own, const std::vector<config::Override>& settings);
/// Whether some servers of the folder's spate.toml are on other machines: `spate join` made it, or `spate init --meta`.
bool is_joined(const std::string& folder);
/// Whether the folder holds this server's data.
bool has_folder(const std::string& folder, ServerId server);
/// Whether a server of this folder's spate.toml belongs to this machine. If is_joined(), some do not.
bool is_here(const std::string& folder, ServerId server);

/// Whether the server has not served yet: a server of a new deployment has no stores and is told to make them (`spated
/// --format`).
bool is_unformatted(const std::string& folder, ServerId server);
void set_formatted(const std::string& folder, ServerId server);

}  // namespace spate::tools
