// SPDX-License-Identifier: Apache-2.0
// Meta servers on several machines: `spate init --meta` and `spate join`. Each of these machines has a meta server and
// a member of etcd; a machine that only votes has the member alone.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "config/filesystem_config.h"
#include "tools/etcd_members.h"
#include "tools/meta_addresses.h"

namespace spate::tools {

/// The member on a machine that only votes, with the first ports that are free.
Result<EtcdMember> voting_member(const std::string& host);
/// Makes the record of the group of meta servers, in which only the server of this machine serves. The others are part
/// of the group from the beginning: each receives a copy when it joins. Does nothing after it has succeeded once.
Result<void> make_first_record(const std::string& folder, const config::FileSystemConfig& config);

/// Makes this machine a voting member of the etcd cluster, and starts it. Resumes what an earlier call has begun. A
/// member of the cluster that has lost its records is replaced.
Result<void> become_voter(const std::string& folder, const config::FileSystemConfig& config, const EtcdMember& self);

/// Starts the meta server, which makes empty stores the first time, and waits until it holds everything. False: it runs
/// and still receives its copy.
Result<bool> start_meta_server(const std::string& folder, const config::FileSystemConfig& config, ServerId server);

}  // namespace spate::tools
