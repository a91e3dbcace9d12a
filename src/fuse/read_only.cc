// SPDX-License-Identifier: Apache-2.0
#include "fuse/read_only.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

namespace spate::fuse {
namespace {

/// The whole file, from its beginning.
std::string read_all(int fd) {
  std::string all;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = ::pread(fd, part.data(), part.size(), static_cast<off_t>(all.size()))) > 0;)
    all.append(part.data(), static_cast<std::size_t>(n));
  return all;
}

}  // namespace

ReadOnly::ReadOnly(bool as_mounted, std::string device)
    : device_(std::move(device)),
      mounts_(device_.empty() ? -1 : ::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)),
      read_only_(as_mounted) {
  if (mounts_) read_only_ = is_read_only(read_all(mounts_.get()), device_, as_mounted);
}

bool ReadOnly::now() {
  const std::lock_guard lock(mutex_);
  pollfd changed{mounts_.get(), POLLPRI, 0};
  if (mounts_ && ::poll(&changed, 1, 0) > 0) read_only_ = is_read_only(read_all(mounts_.get()), device_, read_only_);
  return read_only_;
}

std::string device_of_mount(const std::string& directory) {
  struct statx st{};
  // The kernel knows the device itself, so it sends no request. Nobody could answer one yet.
  if (::statx(AT_FDCWD, directory.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) != 0) return "";
  return fmt::format("{}:{}", st.stx_dev_major, st.stx_dev_minor);
}

/// Source: proc_pid_mountinfo(5): id, parent, device, root, mount point, options, optional fields, "-", type, source,
/// options of the file system.
bool is_read_only(const std::string& mountinfo, const std::string& device, bool otherwise) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, number, word;
    if (!(words >> id >> parent >> number) || number != device) continue;
    while (words >> word && word != "-") {
    }
    std::string type, source, options;
    const bool whole = static_cast<bool>(words >> type >> source >> options);
    if (whole && type.starts_with("fuse")) return options == "ro" || options.starts_with("ro,");
  }
  return otherwise;
}

}  // namespace spate::fuse
