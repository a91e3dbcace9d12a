// SPDX-License-Identifier: Apache-2.0
// What the kernel reads ahead of a program that reads a file from its beginning.
#pragma once

#include <cstdint>
#include <string>

namespace spate::fuse {

/// For the mount at `directory`. FUSE's own protocol allows 128 KiB at most, a round trip for each eighth of a strip;
/// more has to be set in sysfs, which root alone may: failure is logged and otherwise means nothing. Thread-safe.
void ask_for_readahead(const std::string& directory, std::uint64_t bytes);

}  // namespace spate::fuse
