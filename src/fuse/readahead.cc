// SPDX-License-Identifier: Apache-2.0
#include "fuse/readahead.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr std::uint64_t kKiB = 1024;

/// Returns 0 or an errno.
int write_text(const std::string& file, const std::string& text) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno;
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

}  // namespace

void ask_for_readahead(const std::string& directory, std::uint64_t bytes) {
  struct statx st{};
  // The kernel knows the device itself, so this sends no request to the mount.
  int error = ::statx(AT_FDCWD, directory.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) == 0 ? 0 : errno;
  const std::string file = fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", st.stx_dev_major, st.stx_dev_minor);
  if (error == 0) error = write_text(file, std::to_string(bytes / kKiB));
  if (error == 0) {
    SPATE_LOG("fuse", info, "reads ahead bytes={}", bytes);
  } else {
    SPATE_LOG("fuse", debug, "keeps the kernel's readahead file={} error={}", file, std::strerror(error));
  }
}

}  // namespace spate::fuse
