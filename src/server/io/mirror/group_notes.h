// SPDX-License-Identifier: Apache-2.0
// What a server has noted of the groups of which its targets are members.
#pragma once

#include <vector>

#include "job/storage.h"
#include "server/io/mirror/mirror_records.h"

namespace spate::io {

/// All of them. The context outlives the task.
job::Task<Result<std::vector<GroupNote>>> load_group_notes(job::KeyvalContext& keyval);

/// Whether a group counts on what this target holds. Then the target must not be made anew beside records that say that
/// it holds it: an empty copy would be taken for a whole one.
job::Task<Result<bool>> is_counted_on(job::KeyvalContext& keyval, TargetId target);

}  // namespace spate::io
