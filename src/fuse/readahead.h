// SPDX-License-Identifier: Apache-2.0
// How much the kernel reads ahead of a program that reads a file from its beginning.
#pragma once

#include <cstdint>
#include <string>

namespace spate::fuse {

/// Sets the readahead of the mount at `directory`. FUSE's own protocol allows at most 128 KiB, which costs a round trip
/// for each eighth of a strip. More must be set in sysfs, which only root can do; a failure is logged and has no other
/// effect. Thread-safe.
void ask_for_readahead(const std::string& directory, std::uint64_t bytes);

}  // namespace spate::fuse
