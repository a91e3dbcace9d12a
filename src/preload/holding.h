// SPDX-License-Identifier: Apache-2.0
// Hands open files to spate-broker when this process no longer uses them but other processes may.
#pragma once

#include "preload/descriptors.h"

namespace spate::preload {

/// `descriptor` is about to be closed. If it is this process's last descriptor of an open file that other processes may
/// have, the broker takes the file over.
void before_losing(int descriptor);
/// As before_losing(), for a process that ends or becomes another program: whether or not others may have the file.
Result<void> hand_over(Description& description, int descriptor);
/// The descriptor is gone. Releases this process's record locks on the file. If the open file's last descriptor
/// anywhere is gone, waits until the broker has released the file's own locks.
Result<void> lose(DescriptionRef description);
/// The process exits: releases everything at once. Files that the broker has locks or opens of are closed at the
/// kernel, too, so that the broker has released them before the process ends.
void lose_everything();
/// The process becomes another program, or was a helper that opened files for one. The broker takes over the files that
/// survive. False: that failed for some of them, which end with this process's session.
bool hand_everything_over();

}  // namespace spate::preload
