// SPDX-License-Identifier: Apache-2.0
// What open files leave to spate-broker when this process is done with them, and others may not be.
#pragma once

#include "preload/descriptors.h"

namespace spate::preload {

/// `descriptor` is about to go: a file that other processes may have, and that this one is the only known one to have
/// open, is left with the broker.
void before_losing(int descriptor);
/// The same for a process that goes, or becomes another program, whatever others have.
Result<void> hand_over(Description& description, int descriptor);
/// What a descriptor meant that is gone: the process's record locks, the file's own with its last descriptor anywhere.
Result<void> lose(DescriptionRef description);
/// The process exits: all of it at once. Files whose locks or opens the broker has are closed for the kernel too, so
/// that what ends with them has ended when the process has.
void lose_everything();
/// The process becomes another program, or was only there to open files for one: what goes on is left with the broker.
/// False: something could not be, and ends with this process's session.
bool hand_everything_over();

}  // namespace spate::preload
