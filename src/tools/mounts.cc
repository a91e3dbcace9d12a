// SPDX-License-Identifier: Apache-2.0
#include "tools/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "base/unique_fd.h"

namespace spate::tools {
namespace {

constexpr int kAnswerMs = 1000;

/// The path without links. realpath(3) asks no mount, unlike std::filesystem::canonical().
std::string resolved(const std::string& path) {
  std::array<char, PATH_MAX> real{};
  return ::realpath(path.c_str(), real.data()) == nullptr ? path : real.data();
}

uid_t user_in(const mntent& entry) {
  const char* const option = ::hasmntopt(&entry, "user_id");
  return option == nullptr ? 0 : static_cast<uid_t>(std::strtoul(option + sizeof("user_id=") - 1, nullptr, 10));
}

std::vector<MountPoint> all_mounts() {
  const std::unique_ptr<FILE, int (*)(FILE*)> table(::setmntent("/proc/self/mounts", "re"), ::endmntent);
  std::vector<MountPoint> all;
  while (const mntent* entry = table == nullptr ? nullptr : ::getmntent(table.get()))
    all.push_back({entry->mnt_fsname, entry->mnt_dir, entry->mnt_type, user_in(*entry)});
  return all;
}

}  // namespace

MountPoint mounted_at(const std::string& directory) {
  const std::string whole = resolved(directory);
  MountPoint found;
  for (MountPoint& one : all_mounts())
    if (one.directory == whole) found = std::move(one);
  return found;
}

MountPoint mount_of(const std::string& path) {
  MountPoint found;
  for (MountPoint& one : all_mounts()) {
    const bool below = one.directory == "/" || path == one.directory || path.starts_with(one.directory + "/");
    if (below && one.directory.size() >= found.directory.size()) found = std::move(one);
  }
  return found;
}

bool is_trusted(const MountPoint& mount) { return mount.user == 0 || mount.user == ::geteuid(); }

std::vector<MountPoint> spate_mounts() {
  std::vector<MountPoint> all = all_mounts();
  std::erase_if(all, [](const MountPoint& one) { return one.type != "fuse.spate"; });
  return all;
}

std::vector<MountPoint> mounts_of(const std::string& config_file) {
  const std::string wanted = resolved(config_file);
  std::vector<MountPoint> all = spate_mounts();
  std::erase_if(all, [&](const MountPoint& one) {
    // A path that another user has named may lead into a mount of that user, which may never answer.
    const auto place = [&](const std::string& path) { return is_trusted(one) ? resolved(path) : path; };
    return place(one.source) != wanted && place(one.source + "/spate.toml") != wanted;
  });
  return all;
}

/// In a child process, since a mount that waits for its servers blocks whoever looks at it.
bool has_ended(const MountPoint& mount) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  const UniqueFd answer(ends[0]);
  UniqueFd mine(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    struct stat st{};
    const bool ended = ::stat(mount.directory.c_str(), &st) != 0 && errno == ENOTCONN;
    std::ignore = ::write(mine.get(), ended ? "y" : "n", 1);
    ::_exit(0);
  }
  mine.reset();
  pollfd wait{answer.get(), POLLIN, 0};
  char told = 'n';
  if (::poll(&wait, 1, kAnswerMs) == 1) std::ignore = ::read(answer.get(), &told, 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return told == 'y';
}

}  // namespace spate::tools
