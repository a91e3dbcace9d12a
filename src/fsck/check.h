// SPDX-License-Identifier: Apache-2.0
// run: the whole check, in passes.
#pragma once

#include "fsck/options.h"
#include "fsck/servers.h"

namespace spate::fsck {

/// Checks the file system. If requested, repairs it and checks again until there is nothing more to repair. Clients may
/// go on working. Fails only if the meta server does not answer or refuses (kUnauthenticated: a wrong server key);
/// findings that were reported before stay valid. All parameters outlive the task.
job::Task<Result<Summary>> run(Servers& servers, const Options& options, Observer& observer);

}  // namespace spate::fsck
