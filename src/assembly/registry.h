// SPDX-License-Identifier: Apache-2.0
// The network modules that this build is linked with. Only this file includes them. (Storage: assembly/storage.)
#pragma once

#include <memory>
#include <string>

#include "bmi/network.h"
#include "config/filesystem_config.h"
#include "rpc/identity.h"

namespace spate::assembly {

/// Makes a network of all modules of this build, with the limits of [network]. `clock` outlives it. `server`: whether
/// this process is a server.
Result<std::unique_ptr<bmi::Network>> make_network(Clock& clock, const config::FileSystemConfig& config, bool server);

rpc::HandshakePolicy handshake_policy(const config::FileSystemConfig& config);
wire::Protect protection(const config::AuthConfig& config);

}  // namespace spate::assembly
