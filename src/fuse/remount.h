// SPDX-License-Identifier: Apache-2.0
// `mount -o remount`: what spate-mount does when mount(8) calls it as /sbin/mount.fuse.spate.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate::fuse {

struct Remount {
  std::string directory;
  unsigned long on = 0;             // the requested flags of mount(2)
  unsigned long off = 0;            // flags of mount(2) to clear
  std::vector<std::string> others;  // options that are not the kernel's
};

/// Parses the command line of spate-mount if its options have "remount"; otherwise nothing. Leaves out options that
/// mount(8) adds from the present mount, and adds those that mount(8) implies. kInvalidArgument.
Result<std::optional<Remount>> parse_remount(const std::vector<std::string>& arguments);

/// The flags for mount(2): the requested ones, and the others as they are now. `now`: the options of the mount, as
/// /proc/mounts shows them.
unsigned long remount_flags(const Remount& remount, std::string_view now);

/// A line for each option that cannot change and differs from `mounted`, the options of the mount.
std::vector<std::string> refusals(const Remount& remount, std::string_view mounted);

/// Remounts, completely or not at all. Returns the exit status that mount(8) expects. Errors go to standard error.
int run_remount(const Remount& remount);

}  // namespace spate::fuse
