// SPDX-License-Identifier: Apache-2.0
// What happens to clients and open files when the process forks, starts another program, or ends.
#pragma once

namespace spate::preload {

/// At the beginning of each call: in a child of fork(), what belongs to the parent is forgotten.
void notice_fork();

/// The process ends: files are closed and sessions ended, unless another thread is at work on them.
void end_everything();

/// Before another program takes the process over: whether the session can be ended. Not when the program is given a file that
/// has no name any more, which lives as long as a session has it open: that one then ends with its lease.
bool may_end_before_exec();

}  // namespace spate::preload
