// SPDX-License-Identifier: Apache-2.0
// The storage modules that this build is linked with, and the functions that open targets and stores. Only this folder
// includes the modules.
#pragma once

#include <memory>
#include <string>

#include "config/filesystem_config.h"
#include "trove/bytestream.h"
#include "trove/keyval.h"

namespace spate::assembly {

/// Bytestreams::describe() says which kind kAuto has chosen.
struct TargetSettings {
  config::TroveKind kind = config::TroveKind::kAuto;
  std::string folder;  // kMemory: not used
  bool make = false;   // formats a missing target; otherwise kNotFound, since its disk may not be mounted
  FsId fs;
  TargetId target;
  std::uint64_t memory_bytes = 0;  // kMemory: capacity
};
/// Opens a target. kUring fails if the kernel refuses io_uring; kAuto then uses the thread pool and logs that.
Result<std::unique_ptr<trove::Bytestreams>> open_target(const TargetSettings& settings);

/// The key/value store in `folder`, or in memory for kMemory. `make` as above.
Result<std::unique_ptr<trove::Keyval>> open_keyval(config::TroveKind kind, const std::string& folder, bool make);

}  // namespace spate::assembly
