// SPDX-License-Identifier: Apache-2.0
// Locks of open files: fcntl's record locks and flock. The holder has them (preload/holder): they go on over fork and
// exec.
#pragma once

#include "preload/calls.h"

namespace spate::preload {

/// fcntl(2) with F_GETLK, F_SETLK, F_SETLKW or the F_OFD_ ones. `descriptor`: any of the description.
Reply record_lock(Description& description, int descriptor, int command, struct ::flock* lock);
/// flock(2).
Reply whole_lock(Description& description, int descriptor, int operation);
/// Before the first descriptor of a program is closed: what an earlier program of this process has locked is found.
void look_at_inherited_locks();
/// A descriptor of the file was closed: this process's record locks on it go. Nothing happens when it never had any.
void drop_record_locks(Description& description);
/// The process ends.
void drop_all_record_locks();
/// In a child of fork(), which has none.
void forget_record_locks();

}  // namespace spate::preload
