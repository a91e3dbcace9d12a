// SPDX-License-Identifier: Apache-2.0
// remove_tree: removes a directory of the file system with everything below it (`spate rm -r`).
#pragma once

#include <string>

#include "client/client.h"
#include "job/task.h"

namespace spate::tools {

/// Removes `directory`, which is `name` in `parent`. While removals are in flight it goes on to further directories, so
/// that many of them go to the meta server in one request. An object that others have removed meanwhile is no error.
/// After any other error it begins no more removals, and returns the first error.
job::Task<Result<void>> remove_tree(client::Client& client, Handle parent, std::string name, Handle directory);

}  // namespace spate::tools
