// SPDX-License-Identifier: Apache-2.0
// How attributes are shown, and directories listed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "model/attributes.h"
#include "model/layout.h"
#include "tools/command.h"
#include "tools/text.h"

namespace spate::tools {

/// The bits that this process's umask removes from the mode of new files. Only for a process with one thread: the
/// kernel reports the umask only by changing it, so it is 0 for a moment.
std::uint32_t own_umask();

/// A target with less free space than this is shown as full, bytes (guess).
inline constexpr std::uint64_t kFullBelow = 1U << 20U;

/// "-rw-r--r--"
std::string mode_text(FileType type, std::uint32_t mode);
std::string_view type_name(FileType type);
/// Local time in a --time-style: "long-iso" (2026-11-21 03:46), "iso" (to the second, with the zone), "full-iso" (to
/// the nanosecond, with the zone), or "+FORMAT" for strftime.
std::string time_text(WallTime time, const std::string& style = "long-iso");
/// The mistake in a style; empty: there is none.
std::string check_time_style(const std::string& style);
/// The option that sets it.
Argument time_style_option(std::string* target, const std::string& usual);
std::string user_name(std::uint32_t uid);
std::string group_name(std::uint32_t gid);
nlohmann::json to_json(const Attributes& attributes);
nlohmann::json to_json(const Layout& layout);

/// One entry of a directory, with its attributes.
struct Listed {
  std::string name;
  Attributes attributes;
  Layout layout;  // regular files whose size was being asked
};
/// All entries of a directory, ordered by name.
Result<std::vector<Listed>> list_directory(assembly::ClientProcess& process, Handle directory);

/// A directory that a walk is in. A walk has a stack of these, since a user may nest directories to any depth.
struct WalkLevel {
  std::vector<Listed> entries;
  std::size_t path_bytes = 0;  // of the walk's path, to which names below are added
  std::size_t next = 0;
  /// The next entry; null after the last one.
  const Listed* take() { return next == entries.size() ? nullptr : &entries[next++]; }
};

}  // namespace spate::tools
