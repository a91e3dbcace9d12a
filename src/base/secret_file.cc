// SPDX-License-Identifier: Apache-2.0
#include "base/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace spate {

Result<void> check_secret_file(const std::string& file, mode_t others_may_not) {
  struct stat st{};
  if (::stat(file.c_str(), &st) != 0) return errno_error(errno, file);
  if ((st.st_mode & others_may_not) != 0)
    return Error::told(Errc::kPermissionDenied, file + " can be read or changed by others; chmod 600 it");
  if (st.st_uid != 0 && st.st_uid != ::geteuid()) {
    return Error::told(Errc::kPermissionDenied,
                       file + " belongs to another user (uid " + std::to_string(st.st_uid) + ")");
  }
  return {};
}

}  // namespace spate
