// SPDX-License-Identifier: Apache-2.0
// openat2(2): restricts a path by `resolve`. Such a path is walked here, name by name and with handles, because the
// meta server's walk cannot enforce the restrictions. So nobody can redirect it by moving directories or making links
// meanwhile.
#pragma once

#include <linux/openat2.h>

#include "preload/calls.h"

namespace spate::preload {

/// With any of these flags a path is walked here.
constexpr std::uint64_t kWalkedHere = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT;

/// 0, or the kernel's error for arguments that are wrong whatever the path is. `size`: bytes at `how`.
int wrong_how(const open_how* how, std::size_t size);

/// As locate(), for the arguments of openat2. kSymlinkLoop: a link where none is allowed; kCrossDevice: the path leaves
/// its allowed area; kTryAgain: RESOLVE_CACHED. The result of a walk here is an entry that must not be followed, or a
/// directory itself. Costs one request a name, and two a link.
Result<ResolvedPath> locate_how(Frame& frame, std::uint64_t resolve, bool follow);

}  // namespace spate::preload
