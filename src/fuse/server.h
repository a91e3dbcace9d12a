// SPDX-License-Identifier: Apache-2.0
// The process that serves a mount for its supervisor.
#pragma once

#include <string_view>

#include "base/unique_fd.h"
#include "fuse/options.h"

namespace spate::fuse {

struct ServerDescriptors {
  UniqueFd control;  // to the supervisor
  UniqueFd handover;
  UniqueFd gather;  // memory of gathered writes; none without the option
  UniqueFd queue;   // memory of queued changes; none without the option
};
/// Parses the descriptors of `--serve=A,B`, with one or two more, and of `--drain=`, which only a supervisor writes.
/// kInvalidArgument: they are not descriptors of the right kind.
Result<ServerDescriptors> parse_server_descriptors(std::string_view text);

/// Sends what the earlier processes of the mount have gathered, gives the session back, and returns the process's exit
/// status. Serves nothing, and waits for servers no longer than a soft mount.
int drain(const MountOptions& options, ServerDescriptors descriptors);

/// Serves the mount and returns the process's exit status. If it cannot begin, it prints the reason to standard error.
int serve(const MountOptions& options, ServerDescriptors descriptors);

}  // namespace spate::fuse
