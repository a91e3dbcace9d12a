// SPDX-License-Identifier: Apache-2.0
// Starting and stopping the servers of a file system on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/deployment.h"

namespace spate::tools {

/// The usual folder of a file system: $XDG_DATA_HOME/spate, or ~/.local/share/spate.
std::string default_folder();

/// Starts the file system in this folder, for `spate up` and `spate down --force`; returns the exit code.
int start_file_system(Context& context, const std::string& folder);
int stop_file_system(Context& context, const std::string& folder);

/// Returns the settings that --set and --metrics write into the spate.toml of a new file system.
Result<std::vector<config::Override>> settings_of(const Context& context, std::optional<std::uint64_t> metrics);
/// Makes the file system of the plan, unless its folder has one that agrees with it, and starts it; returns the exit
/// code. `port_is_given`: other ports than the plan's are not chosen if these are taken.
int make_and_start(Context& context, const DeploymentPlan& plan, bool port_is_given);
/// Adds an io server of this machine to the file system in use, as `spate server add` does; returns the exit code.
/// `host`: NAME or NAME:PORT, as others reach this machine; empty: as the machine's other servers. `rack`: of this
/// machine; empty: not known.
int add_server(Context& context, const std::string& host, const std::string& rack);

/// kBusy, naming the mounts, if the file system in this folder is mounted: its programs would wait until the servers
/// are back.
Result<void> check_no_mounts(const std::string& folder);

}  // namespace spate::tools
