// SPDX-License-Identifier: Apache-2.0
// Which coordinator modules this build has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coord/coordinator.h"
#include "job/executor.h"
#include "model/ids.h"

namespace spate::assembly {

/// An etcd cluster with these clients' URLs, for the records of this file system. kNotSupported: there is no libcurl,
/// on this machine or where this was built. The executor outlives it.
Result<std::unique_ptr<coord::Coordinator>> make_coordinator(std::vector<std::string> urls, FsId fs,
                                                             job::Executor& executor);

}  // namespace spate::assembly
