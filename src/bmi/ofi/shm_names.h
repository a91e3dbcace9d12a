// SPDX-License-Identifier: Apache-2.0
// ShmNames: the endpoints of libfabric's shm provider in this process.
#pragma once

#include <mutex>
#include <set>
#include <string_view>

#include "base/bytes.h"

namespace spate::bmi::ofi {

inline constexpr std::string_view kShmPrefix = "fi_shm://";

/// In libfabric 1.17 two endpoints of one process share one mapping of a peer's memory. It disappears with its owner,
/// and a process that touches it afterwards ends. So a sender holds the lock and checks first. The defect concerns the
/// whole process, so one object serves the whole process.
class ShmNames {
 public:
  static ShmNames& of_this_process() {
    static ShmNames names;
    return names;
  }
  std::mutex mutex;
  std::set<Bytes> names;  // guarded by mutex
};

}  // namespace spate::bmi::ofi
