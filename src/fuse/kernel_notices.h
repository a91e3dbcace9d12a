// SPDX-License-Identifier: Apache-2.0
// Messages that make the kernel drop what it keeps of a mount.
#pragma once

#include "model/ids.h"

namespace spate::fuse {

/// Makes the kernel drop the object's attributes, not its pages, because these are checked at open. It does not wait
/// for a request, since it takes no lock that one may hold. A reply that is on its way then brings the kernel no
/// attributes of an inode that exists. `device`: /dev/fuse. Returns 0 or an errno; ENOENT: the kernel knows no such
/// object.
int tell_drop_attributes(int device, Handle object);
/// Makes the kernel drop all names (Linux 6.16). As above; EINVAL: the kernel does not know this message.
int tell_new_epoch(int device);

}  // namespace spate::fuse
