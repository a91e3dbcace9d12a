// SPDX-License-Identifier: Apache-2.0
#include "trove/local_target.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>

#include "model/reserved_space.h"
#include "trove/datafile_name.h"
#include "trove/direct.h"

namespace spate::trove {
namespace {

std::size_t open_limit(const LocalTargetOptions& options) {
  if (options.max_open_datafiles > 0) return options.max_open_datafiles;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 64, 4096);
}

/// The times that a datafile had when its process was killed; a machine that crashed may have lost some of them.
ChangeTimes times_after(const ChangeRecord& record, const struct stat& st, bool same_boot) {
  const std::uint64_t counter = record.counter + (record.changing > 0 ? 1 : 0);
  if (same_boot) return {counter, record.mtime_ns};
  ChangeTimes times = ChangeTimes::restore(st);
  if (times.counter >= record.counter) return times;
  times.counter = counter + 1;  // which content survived is not known: it has to look changed
  times.mtime_ns = std::max(times.mtime_ns, record.mtime_ns);
  return times;
}

Result<void> apply_record(const TargetFolder& folder, const ChangeRecord& record, bool same_boot) {
  const DatafilePath path(record.id);
  const UniqueFd fd(::openat(folder.datafiles.get(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NOATIME | O_NOFOLLOW));
  if (!fd && errno == ENOENT) return {};
  struct stat st{};
  if (!fd || ::fstat(fd.get(), &st) != 0)
    return errno_error(errno, "restore counter of datafile " + std::string(path.c_str()));
  if (const int error = store_times(fd.get(), times_after(record, st, same_boot)); error != 0) {
    return errno_error(error, "restore counter of datafile " + std::string(path.c_str()));
  }
  return {};
}

Result<std::unique_ptr<ChangeRecords>> restore_counters(const TargetFolder& folder, std::size_t slots) {
  const std::string boot_id = current_boot_id();
  const LeftOverRecords found = ChangeRecords::read(folder.folder.get(), boot_id);
  for (const ChangeRecord& record : found.records) {
    SPATE_TRY(std::ignore, apply_record(folder, record, found.same_boot));
  }
  return ChangeRecords::create(folder.folder.get(), boot_id, slots);
}

bool is_memory(int fd) {
  struct statfs fs{};
  return ::fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

}  // namespace

Result<std::shared_ptr<LocalTarget>> LocalTarget::open(const std::string& path, const TargetIdentity& expected,
                                                       const LocalTargetOptions& options) {
  SPATE_TRY(TargetFolder folder, open_target(path, expected));
  std::shared_ptr<LocalTarget> target(new LocalTarget(std::move(folder)));
  const std::size_t limit = open_limit(options);
  // Twice the limit, since datafiles in use may exceed the limit. Beyond that, counters go to the inodes at each
  // change.
  SPATE_TRY(target->records_, restore_counters(target->folder_, 2 * limit));
  target->store_ = std::make_unique<FolderStore>(target->folder_, target->records_.get(), limit);
  target->workers_.emplace("trove" + std::to_string(expected.target.value), std::max(1U, options.threads));
  target->in_memory_ = is_memory(target->folder_.datafiles.get());
  target->direct_ = probe_direct(path + "/" + kTargetFileName, target->in_memory_);
  return target;
}

Result<void> LocalTarget::try_device_memory(MutableByteView memory) const {
  if (direct_.alignment == 0) return Error(Errc::kNotSupported, direct_.refusal);
  return probe_device_memory(folder_.path + "/" + kTargetFileName, memory.first(direct_.alignment));
}

Result<SpaceInfo> LocalTarget::space() const {
  struct statvfs fs{};
  if (::fstatvfs(folder_.datafiles.get(), &fs) != 0) return errno_error(errno, "space of " + folder_.path);
  SpaceInfo space;
  space.total_bytes = fs.f_blocks * fs.f_frsize;
  const std::uint64_t left = fs.f_bavail * fs.f_frsize;
  const std::uint64_t kept = reserved_for_records(space.total_bytes);
  space.free_bytes = left > kept ? left - kept : 0;
  space.total_files = fs.f_files;
  space.free_files = fs.f_favail;
  return space;
}

}  // namespace spate::trove
