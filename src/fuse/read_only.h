// SPDX-License-Identifier: Apache-2.0
// ReadOnly: whether a mount is read-only now. The kernel does not tell a mount's server of a remount.
#pragma once

#include <mutex>
#include <string>

#include "base/unique_fd.h"

namespace spate::fuse {

/// Whether the mount whose device (major:minor) is `device` is read-only now. If `device` is empty, or is not in this
/// process's mount namespace, the answer is that of the time of the mount. Thread-safe.
class ReadOnly {
 public:
  ReadOnly(bool as_mounted, std::string device);

  /// Costs a system call that never waits. Reads /proc/self/mountinfo only after some mount has changed. Knows every
  /// remount by mount(2) in this namespace that has returned.
  bool now();

 private:
  const std::string device_;
  std::mutex mutex_;
  UniqueFd mounts_;  // /proc/self/mountinfo; guarded by mutex_
  bool read_only_;   // guarded by mutex_
};

/// "major:minor" of the mount at `directory`. Sends no request to the mount. Empty: unknown.
std::string device_of_mount(const std::string& directory);

/// Whether the FUSE file system of device `device` is read-only, by the text of /proc/self/mountinfo. `otherwise`: the
/// result if the text does not have the device.
bool is_read_only(const std::string& mountinfo, const std::string& device, bool otherwise);

}  // namespace spate::fuse
