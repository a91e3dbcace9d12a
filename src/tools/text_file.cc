// SPDX-License-Identifier: Apache-2.0
#include "tools/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/unique_fd.h"

namespace spate::tools {

Result<void> write_file(const std::string& path, const std::string& text) {
  ::unlink(path.c_str());
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return errno_error(errno, "create " + path);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(fd.get()) != 0) {
    return errno_error(errno, "write " + path);
  }
  return {};
}

Result<void> replace_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  Result<void> done = write_file(fresh, text);
  struct stat old{};
  const bool exists = ::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode);
  if (done && exists && ::chmod(fresh.c_str(), old.st_mode & 07777) != 0) done = errno_error(errno, "write " + path);
  if (done && ::rename(fresh.c_str(), path.c_str()) != 0) done = errno_error(errno, "write " + path);
  if (!done) ::unlink(fresh.c_str());
  return done;
}

}  // namespace spate::tools
