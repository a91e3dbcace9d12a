// SPDX-License-Identifier: Apache-2.0
// The back's access to the front (front.h) and to the kernel.
#pragma once

#include "preload/front.h"
#include "preload/raw.h"

namespace spate::preload {

/// The front of this process; it lives as long as the process. Call set_front() before anything else of the back.
void set_front(const Front& front);
const Front& front();

/// Call it during a call that may take long. Signals that end or stop a program without a handler then take effect.
void let_default_signals_act();
/// The effect of pending signals on a call that waits. 0: there is none, and the call continues. Otherwise the call's
/// result: -EINTR, or kAgain if all handlers have SA_RESTART.
long interruption();

/// The result of a call that fails: -errno.
inline long minus(int error) { return -static_cast<long>(error); }

/// The mode of a new object, without the bits of the program's umask.
unsigned with_umask(unsigned mode);

}  // namespace spate::preload
