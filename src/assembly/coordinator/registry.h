// SPDX-License-Identifier: Apache-2.0
// Which coordinator modules this build has.
#pragma once

#include <memory>

#include "config/filesystem_config.h"
#include "coord/coordinator.h"
#include "coord/voters.h"
#include "job/executor.h"

namespace spate::assembly {

/// The etcd cluster that the configuration names, for the records of this file system. kNotSupported: there is no
/// libcurl, on this machine or where this was built. kPermissionDenied: others can read or change the private key of
/// meta.coordinator_tls. The executor outlives it.
Result<std::unique_ptr<coord::Coordinator>> make_coordinator(const config::FileSystemConfig& config,
                                                             job::Executor& executor);
/// The members of that etcd cluster. Errors as above.
Result<std::unique_ptr<coord::Voters>> make_voters(const config::FileSystemConfig& config, job::Executor& executor);

}  // namespace spate::assembly
