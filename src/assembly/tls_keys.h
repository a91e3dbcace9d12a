// SPDX-License-Identifier: Apache-2.0
// TLS as spate.toml sets it: certificates, or the file system's keys.
#pragma once

#include <memory>

#include "config/filesystem_config.h"
#include "tls/stream.h"

namespace spate::assembly {

/// Whether a server has a tcp+tls:// address.
bool uses_tls(const config::FileSystemConfig& config);

/// It loads nothing before the module opens it. Then, and for each connection that this process makes, it reads the key
/// files. `server`: the process is a server, and proves the server key to others.
std::shared_ptr<tls::Context> make_tls(const config::FileSystemConfig& config, bool server);

}  // namespace spate::assembly
