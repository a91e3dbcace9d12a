// SPDX-License-Identifier: Apache-2.0
// The dashboard shows the strips of a file, or the entries of a directory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "assembly/client_process.h"

namespace spate::tools {

/// Most strips, and most entries, in one answer.
inline constexpr std::size_t kMostStrips = 256;
inline constexpr std::size_t kMostEntries = 200;

/// The first strips of a file of `size` bytes that lie at or after the strip of byte `from`: [offset, bytes, slot,
/// offset in the datafile] each; `next`: where the ones after begin, null at the end.
Result<nlohmann::json> strips_of(const Layout& layout, std::uint64_t size, std::uint64_t from);

/// The bytes that a name shown by printable() stands for: each \xNN is one.
std::string shown_name(std::string_view shown);

/// The object at `path`: type, size, and its layout or its first entries. `from`: a file's byte, or the `next` of an
/// earlier answer about a directory. Thread-safe.
Result<nlohmann::json> look_at_path(assembly::ClientProcess& process, const std::string& path, std::uint64_t from);

}  // namespace spate::tools
