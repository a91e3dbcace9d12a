// SPDX-License-Identifier: Apache-2.0
// Fork, exec and exit: what becomes of clients and open files.
#pragma once

namespace spate::preload {

/// Called at the beginning of each call. In a child of fork() it forgets the state that belongs to the parent.
void notice_fork();

/// Called when the process ends. Closes files and ends sessions, unless another thread is working on them.
void end_everything();

/// Another program takes the process over, or it was a helper (helper.h): the same, and the files that go on are left
/// with the broker (holding.h).
void end_before_exec();

}  // namespace spate::preload
