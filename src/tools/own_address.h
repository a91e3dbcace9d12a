// SPDX-License-Identifier: Apache-2.0
// The address at which other machines reach this one.
#pragma once

#include <string>

#include "base/result.h"

namespace spate::tools {

/// This machine's address on the way to `host` (a name or an address, IPv6 in brackets), in brackets if it is IPv6.
/// Sends nothing but what the lookup of a name takes. kUnreachable: there is no such name, or no way to it.
Result<std::string> own_address_towards(const std::string& host);
/// This machine's address on its way to other networks. kUnreachable: it has no default route.
Result<std::string> own_address();

}  // namespace spate::tools
