// SPDX-License-Identifier: Apache-2.0
// The question asked before each system call of the C library: is it Spate's affair? A few nanoseconds, no SSE
// registers, no calls.
#pragma once

#include "preload/front.h"

namespace spate::preload {

/// True: the call goes to take_over(). May say yes in vain, never no. Compiled for general registers only.
extern "C" bool spate_preload_wants(Frame* frame);

extern FrontState front_state;
extern __thread ThreadState thread_state __attribute__((tls_model("initial-exec")));

/// Whether a call of this number is ever Spate's affair.
bool knows_call(unsigned long number);

/// See Front.
bool in_vfork_child();

}  // namespace spate::preload
