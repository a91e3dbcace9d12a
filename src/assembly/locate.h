// SPDX-License-Identifier: Apache-2.0
// Finds the file system for a program that was not told which one to use.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace spate::assembly {

/// The spate.toml to use: `given` (a file, or the folder of a spate.toml), else SPATE_FS (the same), else the file
/// system that `spate up` started last. kNotFound, with advice, if there is none.
Result<std::string> locate_config(const std::string& given);

/// This user's folder of a kind: the path in the environment variable, such as XDG_STATE_HOME, else `below` the home
/// folder. Empty: there is no such folder, or others own it (sudo may keep HOME) or may write to it, so that its files
/// cannot be trusted.
std::string own_folder(const char* variable, const std::string& below);

/// The file in which `spate up` records the file system started last: $XDG_STATE_HOME/spate/current, or below
/// ~/.local/state. Empty: own_folder() is.
std::string current_file();

/// This user's home folder (HOME). Empty: there is none, or others own it or may write to it.
std::string own_home();

/// This process's environment, "NAME=value" each.
std::vector<std::string> whole_environment();

}  // namespace spate::assembly
