// SPDX-License-Identifier: Apache-2.0
// Which URLs are those of this machine.
#pragma once

#include <optional>
#include <string>

namespace spate::assembly {

/// Whether the host in the URL is a name or number of this machine. Nothing for shm, since every machine has such
/// names. May ask a name server.
std::optional<bool> is_own_url(const std::string& url);

}  // namespace spate::assembly
