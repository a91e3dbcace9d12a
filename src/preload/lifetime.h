// SPDX-License-Identifier: Apache-2.0
// Keeps clients and open files right across fork, exec and exit.
#pragma once

namespace spate::preload {

/// Called at the beginning of each call. In a child of fork() it drops the state that belongs to the parent.
void notice_fork();

/// Called when the process ends. Closes files and ends sessions, unless another thread is working on them.
void end_everything();

/// Another program replaces this one, or this was a helper (helper.h). As end_everything(), but the broker takes over
/// the files that survive (holding.h).
void end_before_exec();

}  // namespace spate::preload
