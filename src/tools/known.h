// SPDX-License-Identifier: Apache-2.0
// The file systems that this user's `spate up` has started: a list of spate.toml files, and the last one of them.
#pragma once

#include <string>
#include <vector>

namespace spate::tools {

/// Those that `spate up` has started and `spate destroy` has not removed. A file may be missing all the same.
std::vector<std::string> known_file_systems();
/// Their folders.
std::vector<std::string> known_folders();
/// The file system was just started: commands use it if no other one is named.
void remember_file_system(const std::string& config_file);
/// Commands no longer use it. If they did, they use the last started one of those that run; returns that one, else an
/// empty text.
std::string forget_file_system(const std::string& config_file);

}  // namespace spate::tools
