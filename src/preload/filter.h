// SPDX-License-Identifier: Apache-2.0
// Decides before each system call of the C library whether Spate handles the call. It takes a few nanoseconds, uses no
// SSE registers and makes no calls.
#pragma once

#include "preload/front.h"

namespace spate::preload {

/// True: the call goes to take_over(). It may return true for a call that does not concern Spate, but never false for
/// one that does. Compiled for general registers only.
extern "C" bool spate_preload_wants(Frame* frame);

extern FrontState front_state;
extern __thread ThreadState thread_state __attribute__((tls_model("initial-exec")));

/// Whether Spate may handle calls of this number.
bool knows_call(unsigned long number);

/// See Front::in_vfork_child.
bool in_vfork_child();

}  // namespace spate::preload
