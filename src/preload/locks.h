// SPDX-License-Identifier: Apache-2.0
// Locks of open files: fcntl's record locks and flock. The broker (preload/broker) owns them, so they survive fork and
// exec.
#pragma once

#include "preload/calls.h"

namespace spate::preload {

/// fcntl(2) with F_GETLK, F_SETLK, F_SETLKW or their F_OFD_ forms. `descriptor`: any one of the description.
Reply record_lock(Description& description, int descriptor, int command, struct ::flock* lock);
/// flock(2).
Reply whole_lock(Description& description, int descriptor, int operation);
/// Call it before the first close of a descriptor in a program. It finds locks that an earlier program of this process
/// has left.
void look_at_inherited_locks();
/// Call it when a descriptor of the file was closed. Releases this process's record locks on the file. Does nothing if
/// the process never had any.
void drop_record_locks(Description& description);
/// Call it when the process ends.
void drop_all_record_locks();
/// Call it in a child of fork(), which has no record locks.
void forget_record_locks();

}  // namespace spate::preload
