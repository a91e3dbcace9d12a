// SPDX-License-Identifier: Apache-2.0
// Hands open files to spate-broker when this process no longer uses them but others may.
#pragma once

#include "preload/descriptors.h"

namespace spate::preload {

/// `descriptor` is about to be closed. If other processes may have the file, and this is the only known process that
/// has it open at the servers, the broker takes it over.
void before_losing(int descriptor);
/// The same for a process that ends or becomes another program, whatever other processes have.
Result<void> hand_over(Description& description, int descriptor);
/// The descriptor is gone: releases the process's record locks on the file, and with its last descriptor anywhere the
/// file's own locks.
Result<void> lose(DescriptionRef description);
/// The process exits: releases everything at once. Files with locks or opens at the broker are closed for the kernel,
/// too, so that the broker has released them when the process has ended.
void lose_everything();
/// The process becomes another program, or was a helper that opened files for one: the broker takes over the files that
/// survive. False: that failed for some of them, which end with this process's session.
bool hand_everything_over();

}  // namespace spate::preload
