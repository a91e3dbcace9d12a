// SPDX-License-Identifier: Apache-2.0
// PortOwner: the process at the address of a server that has no pid file. For `up` and `down`.
#pragma once

#include <string>

#include "tools/context.h"

namespace spate::tools {

/// The process at that address: none, the server itself, or another program.
enum class PortOwner : std::uint8_t { kNobody, kThatServer, kOther };
/// Finds out which process is there. If it is the server itself, a spated of this user with this spate.toml, writes its
/// pid file in `folder`. The file may be missing because somebody removed it or killed `up`.
Result<PortOwner> look_at_port(Context& context, const std::string& folder, const config::ServerConfig& server);

}  // namespace spate::tools
