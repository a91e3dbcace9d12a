// SPDX-License-Identifier: Apache-2.0
// This machine's addresses: the one at which other machines reach it, and which servers have one of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "config/filesystem_config.h"

namespace spate::tools {

/// This machine's address on the route to `host` (a name or an address, IPv6 in brackets), in brackets if it is IPv6.
/// Sends nothing except to look up the name. kUnreachable: there is no such name, or no route to it.
Result<std::string> own_address_towards(const std::string& host);
/// This machine's address on its default route. kUnreachable: it has no default route.
Result<std::string> own_address();

/// The addresses of a host (a name or an address, IPv6 in brackets) as numbers, without brackets. Empty: it has none.
std::vector<std::string> addresses_of(const std::string& host);
/// Whether an address of the server is this machine's, or all its addresses are names that every machine has (shm).
bool belongs_here(const config::ServerConfig& server);

}  // namespace spate::tools
