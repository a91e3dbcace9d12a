// SPDX-License-Identifier: Apache-2.0
// Decides who may have a bypass lease.
#pragma once

#include <optional>
#include <string>

#include "rpc/call.h"
#include "server/io/parts.h"

namespace spate::io {

/// The reason why this connection gets no lease for any datafile; nothing if it may have one.
std::optional<std::string> bypass_refusal(const Parts& parts, const rpc::Call& call, bool for_writing);

}  // namespace spate::io
