// SPDX-License-Identifier: Apache-2.0
// The back's access to the front (front.h) and to the kernel.
#pragma once

#include "preload/front.h"
#include "preload/raw.h"

namespace spate::preload {

/// The front of this process; it lives as long as the process. set_front() comes before anything else of the back.
void set_front(const Front& front);
const Front& front();

/// In the middle of a call that may take long: what ends or stops a program that has no handler for it does so now.
void let_default_signals_act();
/// What signals that have come since the call began, and wait for its end, make of a call that waits. 0: nothing, it
/// goes on; else its result: -EINTR, or kAgain where all their handlers have SA_RESTART.
long interruption();

/// The result of a call that fails: -errno.
inline long minus(int error) { return -static_cast<long>(error); }

/// The mode of what is made, without the bits of the program's umask.
unsigned with_umask(unsigned mode);

}  // namespace spate::preload
