// SPDX-License-Identifier: Apache-2.0
// Locks of open files: fcntl's record locks and flock.
#pragma once

#include "preload/calls.h"

namespace spate::preload {

/// fcntl(2) with F_GETLK, F_SETLK, F_SETLKW or the F_OFD_ ones.
Reply record_lock(Description& description, int command, struct ::flock* lock);
/// flock(2).
Reply whole_lock(Description& description, int operation);
/// A descriptor of the file was closed: this process's record locks on it go. Nothing happens when it never had any.
void drop_record_locks(Description& description);

}  // namespace spate::preload
