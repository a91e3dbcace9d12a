// SPDX-License-Identifier: Apache-2.0
// Finds out which file names are Spate's. Asks neither MPI nor a file system.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace spate::mpiio {

struct Name {
  std::string config;  // spate.toml or its folder; empty: the environment decides
  std::string path;    // in that file system, begins with '/'
  friend bool operator==(const Name&, const Name&) = default;
};

/// Parses `name` as a program passes it to MPI_File_open: "spate:/path", or a path below one of `prefixes`, which is
/// the text of SPATE_PREFIX (PREFIX or PREFIX=CONFIG, separated by ':'). `directory`: where relative paths begin.
/// Nothing: the name is not Spate's. Names like "ufs:/path" never are, because they ask for MPI's own functions.
std::optional<Name> resolve(std::string_view name, std::string_view prefixes, std::string_view directory);

/// Whether the name begins like ROMIO's "ufs:": with letters before the first ':', and no '/' before it.
bool has_scheme(std::string_view name);

/// Finds the file of a path on a mount. `path` is absolute and has no symbolic links; `mountinfo` is the text of
/// /proc/self/mountinfo. Nothing: no mount of Spate has the path, the mount is read-only, its source (fsname=) is not
/// an absolute name, or neither root nor `user` has mounted it. Other users may give a FUSE mount any type and source.
std::optional<Name> resolve_on_mount(std::string_view path, std::string_view mountinfo, uid_t user);

}  // namespace spate::mpiio
