// SPDX-License-Identifier: Apache-2.0
// The sizes of a request's streams, measured without stalling the loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datatype/description.h"
#include "dist/distribution.h"
#include "job/executor.h"

namespace spate::flow {

/// Measures the stream of each slot of `slots`, in bytes, until all together have more than `limit` bytes; then the
/// result is empty. It examines every block of the description once for each slot; the caller bounds both. Other
/// coroutines run after at most 2 * SlotCursor::kMaxStepsPerBatch blocks. The arguments outlive the task.
job::Task<std::vector<std::uint64_t>> stream_sizes_up_to(job::Executor& executor, const datatype::Description& what,
                                                         const Distribution& distribution,
                                                         std::span<const std::uint32_t> slots, std::uint64_t limit);

}  // namespace spate::flow
