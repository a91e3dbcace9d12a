// SPDX-License-Identifier: Apache-2.0
// Which file system is meant when nobody says.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace spate::assembly {

/// The spate.toml to use: `given` (a file, or the folder that holds a spate.toml), else SPATE_FS (the same), else the
/// file system that `spate up` started last. kNotFound, with what to do, when there is none.
Result<std::string> locate_config(const std::string& given);

/// Where `spate up` notes the file system started last: $XDG_STATE_HOME/spate/current, or below ~/.local/state. Empty:
/// there is no such place, or it is another user's (sudo may keep HOME): what that user has put there is not believed.
std::string current_file();

/// This user's home folder (HOME); empty: there is none, or it is another user's.
std::string own_home();

/// This process's environment, "NAME=value" each.
std::vector<std::string> whole_environment();

}  // namespace spate::assembly
