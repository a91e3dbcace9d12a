// SPDX-License-Identifier: Apache-2.0
// Reads from spate.toml which proofs the addresses of servers ask of clients, for both sides of the handshake.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/result.h"
#include "config/filesystem_config.h"
#include "rpc/proofs.h"

namespace spate::assembly {

/// For processes that dial. AskedProofs::avoided is empty.
rpc::AskedProofs asked_proofs(const config::FileSystemConfig& config);
/// For AskedProofs::avoided in a client. Addresses of the own machine that ask for nothing, of servers that also have
/// addresses of networks, none of which is this machine's: another process may listen there. And addresses of TLS, if
/// the certificate's key is not this process's to read and the server's other addresses may ask for other proofs.
std::set<std::string, std::less<>> urls_to_avoid(const config::FileSystemConfig& config);

/// For the server `self`. kNotPermitted: an address asks for nothing, and its host is no address of the own machine
/// only. May ask a name server.
Result<rpc::Entrances> entrances_of(const config::FileSystemConfig& config, const config::ServerConfig& self);

}  // namespace spate::assembly
