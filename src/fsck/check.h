// SPDX-License-Identifier: Apache-2.0
// run: the whole check, in passes.
#pragma once

#include "fsck/options.h"
#include "fsck/servers.h"

namespace spate::fsck {

/// Checks the file system and, if asked to, mends it and checks again until there is nothing more to mend. Clients may
/// go on working. Fails only when the meta server does not answer or refuses (kUnauthenticated: a wrong server key):
/// then what was reported before stands. All parameters outlive the task.
job::Task<Result<Summary>> run(Servers& servers, const Options& options, Observer& observer);

}  // namespace spate::fsck
