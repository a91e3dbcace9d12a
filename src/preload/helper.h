// SPDX-License-Identifier: Apache-2.0
// Calls on Spate in a child of vfork() or posix_spawn(). Such a child shares its parent's memory but not its
// descriptors: the parent's client would open connections in the child that the parent does not have. So a helper
// process makes the call. It has a copy of the memory, and shares descriptors and the working directory with the child.
#pragma once

#include "preload/calls.h"

namespace spate::preload {

/// Runs `handler` in a helper process. Only in a child that shares its parent's memory.
Reply run_in_helper(Handler handler, Frame& frame);

/// In a helper process: memory that the child can still read when the helper has ended. Null in other processes, and if
/// none of that memory is left.
char* helper_memory(std::size_t size);

}  // namespace spate::preload
