// SPDX-License-Identifier: Apache-2.0
// The options that the roles of a server get at their start, from spate.toml.
#pragma once

#include <string>

#include "base/checksum.h"
#include "config/filesystem_config.h"
#include "server/io/io_service.h"
#include "server/meta/background/io_servers.h"
#include "server/meta/core/options.h"

namespace spate::assembly {

/// Where the options come from; all outlive the call.
struct RoleSource {
  const config::FileSystemConfig& config;
  const std::string& text;  // of the spate.toml
  const config::ServerConfig& self;
  const KeyRing& server_keys;
  bool format = false;
};

/// Differs after each start of the machine; 0 where the kernel does not tell.
std::uint64_t boot_id();

meta::MetaOptions meta_options(const RoleSource& source);
meta::IoServersOptions io_servers_options(const RoleSource& source);
/// Maps the memory of flow.p2p_memory.
io::IoOptions io_options(const RoleSource& source);

}  // namespace spate::assembly
