// SPDX-License-Identifier: Apache-2.0
// Which file names are Spate's. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace spate::mpiio {

struct Name {
  std::string config;  // spate.toml or its folder; empty: as the environment says
  std::string path;    // in that file system, begins with '/'
  friend bool operator==(const Name&, const Name&) = default;
};

/// `name` as a program gives it to MPI_File_open: "spate:/path", or a path below one of `prefixes` (the text of
/// SPATE_PREFIX: PREFIX or PREFIX=CONFIG, separated by ':'). `directory`: what a relative path begins at. Nothing: not
/// Spate's. "ufs:/path" and the like never are: they ask MPI's own functions for something.
std::optional<Name> resolve(std::string_view name, std::string_view prefixes, std::string_view directory);

/// "ufs:", as ROMIO has it: letters before the first ':', and that before any '/'.
bool has_scheme(std::string_view name);

/// The same for a path on a mount: `path` is absolute and without symbolic links, `mountinfo` the text of
/// /proc/self/mountinfo. Nothing: it is on no mount of Spate's, on one that is read-only, or on one whose source is no
/// absolute name (fsname=).
std::optional<Name> resolve_on_mount(std::string_view path, std::string_view mountinfo);

}  // namespace spate::mpiio
