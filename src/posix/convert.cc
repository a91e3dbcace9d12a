// SPDX-License-Identifier: Apache-2.0
#include "posix/convert.h"

#include <dirent.h>

#include <algorithm>

namespace spate::posix {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr std::uint64_t kStatBlock = 512;
constexpr std::uint64_t kSpaceBlock = 4096;

struct TypeRow {
  FileType type;
  mode_t bits;
  unsigned char entry;
};

constexpr TypeRow kTypes[] = {
    {FileType::kRegular, S_IFREG, DT_REG},     {FileType::kDirectory, S_IFDIR, DT_DIR},
    {FileType::kSymlink, S_IFLNK, DT_LNK},     {FileType::kFifo, S_IFIFO, DT_FIFO},
    {FileType::kSocket, S_IFSOCK, DT_SOCK},    {FileType::kCharDevice, S_IFCHR, DT_CHR},
    {FileType::kBlockDevice, S_IFBLK, DT_BLK},
};

Result<void> set_time(timespec time, std::optional<WallTime>& value, bool& now) {
  if (time.tv_nsec == UTIME_OMIT) return {};
  if (time.tv_nsec == UTIME_NOW) {
    now = true;
    return {};
  }
  if (time.tv_nsec < 0 || time.tv_nsec >= kNanosecondsPerSecond) return Errc::kInvalidArgument;
  value = to_wall_time(time);
  return {};
}

}  // namespace

timespec to_timespec(WallTime time) {
  std::int64_t seconds = time.ns / kNanosecondsPerSecond;
  std::int64_t rest = time.ns % kNanosecondsPerSecond;
  if (rest < 0) {  // before 1970: nanoseconds still count forward
    rest += kNanosecondsPerSecond;
    --seconds;
  }
  return {.tv_sec = seconds, .tv_nsec = rest};
}

WallTime to_wall_time(timespec time) {
  // Times outside of the years 1677 to 2262 become the nearest time that fits.
  constexpr std::int64_t kMost = INT64_MAX / kNanosecondsPerSecond - 1;
  const std::int64_t seconds = std::clamp<std::int64_t>(time.tv_sec, -kMost, kMost);
  return {seconds * kNanosecondsPerSecond + time.tv_nsec};
}

struct stat to_stat(const Attributes& a, std::uint64_t block_bytes) {
  struct stat st{};
  st.st_ino = a.handle.value;
  st.st_mode = type_bits(a.type) | a.mode;
  st.st_nlink = a.link_count;
  st.st_uid = a.uid;
  st.st_gid = a.gid;
  st.st_rdev = a.device;
  st.st_size = static_cast<off_t>(a.size);
  st.st_blksize = static_cast<blksize_t>(block_bytes);
  st.st_blocks = static_cast<blkcnt_t>((a.allocated_bytes + kStatBlock - 1) / kStatBlock);
  st.st_atim = to_timespec(a.atime);
  st.st_mtim = to_timespec(a.mtime);
  st.st_ctim = to_timespec(a.ctime);
  return st;
}

struct statvfs to_statvfs(const client::SpaceUse& use) {
  struct statvfs st{};
  st.f_bsize = kSpaceBlock;
  st.f_frsize = kSpaceBlock;
  st.f_blocks = use.total_bytes / kSpaceBlock;
  st.f_bfree = use.free_bytes / kSpaceBlock;
  st.f_bavail = st.f_bfree;
  st.f_files = use.objects + use.free_files;
  st.f_ffree = use.free_files;
  st.f_favail = use.free_files;
  st.f_namemax = kMaxNameBytes;
  return st;
}

mode_t type_bits(FileType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.bits;
  }
  return 0;
}

Result<FileType> type_of_mode(mode_t mode) {
  if ((mode & S_IFMT) == 0) return FileType::kRegular;  // mknod(2)
  for (const TypeRow& row : kTypes) {
    if (row.bits == (mode & S_IFMT)) return row.type;
  }
  return Errc::kInvalidArgument;
}

unsigned char entry_type(FileType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.entry;
  }
  return DT_UNKNOWN;
}

Result<void> set_times(const timespec times[2], wire::SetattrRequest& request) {
  if (times == nullptr) {
    request.atime_now = request.mtime_now = true;
    return {};
  }
  SPATE_TRY(std::ignore, set_time(times[0], request.atime, request.atime_now));
  return set_time(times[1], request.mtime, request.mtime_now);
}

}  // namespace spate::posix
