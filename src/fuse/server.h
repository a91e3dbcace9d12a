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
};
/// The descriptors of `--serve=A,B`, which only a supervisor writes. kInvalidArgument when they are not what they
/// should be.
Result<ServerDescriptors> parse_server_descriptors(std::string_view text);

/// The process's exit status. Says on standard error why it cannot begin.
int serve(const MountOptions& options, ServerDescriptors descriptors);

}  // namespace spate::fuse
