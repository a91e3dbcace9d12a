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
};
/// Parses the descriptors of `--serve=A,B` or `--serve=A,B,C`, which only a supervisor writes. kInvalidArgument: they
/// are not descriptors of the right kind.
Result<ServerDescriptors> parse_server_descriptors(std::string_view text);

/// Serves the mount and returns the process's exit status. If it cannot begin, it prints the reason to standard error.
int serve(const MountOptions& options, ServerDescriptors descriptors);

}  // namespace spate::fuse
