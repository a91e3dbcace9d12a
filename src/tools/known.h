// SPDX-License-Identifier: Apache-2.0
// The file systems that this user's `spate up` has started: a list of spate.toml files, and the last one of them.
#pragma once

#include <string>
#include <vector>

namespace spate::tools {

/// Paths of spate.toml: `spate up` has started these, and `spate destroy` has not removed them. A file may be missing.
std::vector<std::string> known_file_systems();
/// Their folders.
std::vector<std::string> known_folders();
/// Notes that the file system was just started: commands use it if the user names no other one.
void remember_file_system(const std::string& config_file);
/// Commands no longer use this file system. If it was the current one, the last started one that still runs takes its
/// place. Returns that one's spate.toml; empty if nothing has changed or none runs.
std::string forget_file_system(const std::string& config_file);

}  // namespace spate::tools
