// SPDX-License-Identifier: Apache-2.0
// What happens to clients and open files when the process forks, starts another program, or ends.
#pragma once

namespace spate::preload {

/// At the beginning of each call: in a child of fork(), what belongs to the parent is forgotten.
void notice_fork();

/// The process ends: files are closed and sessions ended, unless another thread is at work on them.
void end_everything();

/// Another program takes the process over, or it was a helper (helper.h): the same, and the files that go on are left
/// with the holder (holding.h).
void end_before_exec();

}  // namespace spate::preload
