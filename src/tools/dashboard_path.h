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

/// Describes a file of `size` bytes from byte `from` to the next end of a strip, and then strip by strip, at most
/// kMostStrips pieces: [offset, bytes, slot, offset in the datafile] each. `next`: where the rest begins, or null.
Result<nlohmann::json> strips_of(const Layout& layout, std::uint64_t size, std::uint64_t from);

/// Reverses printable(): yields the bytes of a name that was shown with a \xNN for a byte that is not printable.
std::string shown_name(std::string_view shown);

/// The object at `path`: type, size, and its layout or its first entries. `from`: a file's byte, or the `next` of an
/// earlier answer about a directory. Thread-safe.
Result<nlohmann::json> look_at_path(assembly::ClientProcess& process, const std::string& path, std::uint64_t from);

}  // namespace spate::tools
