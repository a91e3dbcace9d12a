// SPDX-License-Identifier: Apache-2.0
// Who may have a bypass lease.
#pragma once

#include <optional>
#include <string>

#include "rpc/call.h"
#include "server/io/parts.h"

namespace spate::io {

/// Why this connection gets no lease, whatever the datafile; nothing when it may have one.
std::optional<std::string> bypass_refusal(const Parts& parts, const rpc::Call& call, bool for_writing);

}  // namespace spate::io
