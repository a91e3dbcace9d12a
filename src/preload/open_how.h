// SPDX-License-Identifier: Apache-2.0
// openat2(2): what its `resolve` forbids a path. Walks that the meta server cannot be trusted with are done here, name
// by name and by handles, so that nobody who moves directories or makes links meanwhile can lead them elsewhere.
#pragma once

#include <linux/openat2.h>

#include "preload/calls.h"

namespace spate::preload {

/// With any of these a path is walked here.
constexpr std::uint64_t kWalkedHere = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT;

/// 0, or what the kernel says of arguments that are wrong wherever the path leads. `size`: of what is at `how`, bytes.
int wrong_how(const open_how* how, std::size_t size);

/// As locate(), for the arguments of openat2. kSymlinkLoop: a link where none may be; kCrossDevice: out of where it may
/// lead; kTryAgain: RESOLVE_CACHED. What was walked here is an entry that must not be followed, or a directory itself;
/// one request a name, and two a link.
Result<ResolvedPath> locate_how(Frame& frame, std::uint64_t resolve, bool follow);

}  // namespace spate::preload
