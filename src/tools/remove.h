// SPDX-License-Identifier: Apache-2.0
// remove_tree: removes a directory of the file system with everything below it (`spate rm -r`).
#pragma once

#include <string>

#include "client/client.h"
#include "job/task.h"

namespace spate::tools {

/// Removes `directory`, which is `name` in `parent`. Goes on to further directories while changes are under way, so
/// that many of them go to the meta server together. What others have removed meanwhile is no error. After another
/// error nothing more is removed, and the first one is returned.
job::Task<Result<void>> remove_tree(client::Client& client, Handle parent, std::string name, Handle directory);

}  // namespace spate::tools
