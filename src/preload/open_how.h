// SPDX-License-Identifier: Apache-2.0
// openat2(2), which restricts a path by `resolve`. This library walks such a path itself, name by name and with
// handles, because the meta server's walk cannot enforce the restrictions. So nobody can redirect the walk by moving
// directories or making links meanwhile.
#pragma once

#include <linux/openat2.h>

#include "preload/calls.h"

namespace spate::preload {

/// With any of these flags this library walks the path itself.
constexpr std::uint64_t kWalkedHere = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT;

/// The kernel's error for arguments that are wrong whatever the path is; 0: none. `size`: number of bytes at `how`.
int wrong_how(const open_how* how, std::size_t size);

/// As locate(), for the arguments of openat2. kSymlinkLoop: a link where none is allowed. kCrossDevice: the path leaves
/// its allowed area. kTryAgain: RESOLVE_CACHED. The result of a walk by this library is an entry that must not be
/// followed, or a directory itself. Costs one request for each name, and two for each link.
Result<ResolvedPath> locate_how(Frame& frame, std::uint64_t resolve, bool follow);

}  // namespace spate::preload
