// SPDX-License-Identifier: Apache-2.0
// Finds the file system that a program means if it is not named.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace spate::assembly {

/// The spate.toml to use: `given` (a file, or the folder that holds a spate.toml), else SPATE_FS (the same), else the
/// file system that `spate up` started last. kNotFound, with what to do, when there is none.
Result<std::string> locate_config(const std::string& given);

/// Where `spate up` notes the file system started last: $XDG_STATE_HOME/spate/current, or below ~/.local/state. Empty:
/// there is no such place, or others own it (sudo may keep HOME) or may write there, whose files are not trusted.
std::string current_file();

/// This user's home folder (HOME). Empty: there is none, or others own it or may write there.
std::string own_home();

/// This process's environment, "NAME=value" each.
std::vector<std::string> whole_environment();

}  // namespace spate::assembly
