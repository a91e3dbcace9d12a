// SPDX-License-Identifier: Apache-2.0
// `mount -o remount`: what mount(8) asks of /sbin/mount.fuse.spate.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate::fuse {

struct Remount {
  std::string directory;
  unsigned long on = 0;             // flags of mount(2) that are asked for
  unsigned long off = 0;            // the same, that are to go
  std::vector<std::string> others;  // options that are not the kernel's
};

/// The command line of spate-mount when its options have "remount"; nothing when they do not. What mount(8) adds from
/// what is mounted is left out, what it leaves out is understood. kInvalidArgument.
Result<std::optional<Remount>> parse_remount(const std::vector<std::string>& arguments);

/// The last argument of mount(2) but one: what is asked for, and all else as it is. `now`: the options of the mount, as
/// /proc/mounts has them.
unsigned long remount_flags(const Remount& remount, std::string_view now);

/// What cannot be done, a line for each option that is not as it was mounted. `mounted`: the options of then.
std::vector<std::string> refusals(const Remount& remount, std::string_view mounted);

/// Does it, all or nothing. The exit status that mount(8) expects; errors go to standard error.
int run_remount(const Remount& remount);

}  // namespace spate::fuse
