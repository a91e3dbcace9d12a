// SPDX-License-Identifier: Apache-2.0
// The notes that a server keeps of the groups that its targets belong to.
#pragma once

#include <vector>

#include "job/storage.h"
#include "server/io/mirror/mirror_records.h"

namespace spate::io {

/// Loads all notes. The context outlives the task.
job::Task<Result<std::vector<GroupNote>>> load_group_notes(job::KeyvalContext& keyval);

/// Whether a group counts on the data of this target. If so, the target must not be made anew while records say that it
/// holds the data: its empty copy would be taken for a whole one.
job::Task<Result<bool>> is_counted_on(job::KeyvalContext& keyval, TargetId target);

}  // namespace spate::io
