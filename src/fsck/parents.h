// SPDX-License-Identifier: Apache-2.0
// Fills the parents that inodes do not know (docs/fsck.md, "Parents"): those that older versions of Spate have made,
// and objects that have lost a name.
#pragma once

#include "fsck/options.h"
#include "fsck/servers.h"

namespace spate::fsck {

/// Sets the parent of every object that has a name and knows none. Yields how many it has set: 0 of a server that does
/// not know parents. Fails when the meta server does not answer.
job::Task<Result<std::uint64_t>> fill_parents(Servers& servers, const Options& options);

}  // namespace spate::fsck
