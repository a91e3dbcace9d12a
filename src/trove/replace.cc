// SPDX-License-Identifier: Apache-2.0
// FolderStore::replace: a datafile moves to a new local file, so that late writes by a descriptor that was passed on go
// nowhere.
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "trove/datafile_name.h"
#include "trove/folder_store.h"

namespace spate::trove {
namespace {

constexpr std::size_t kCopyBytes = 1U << 20U;

/// Copies through memory if the file system has no better way.
Errc copy_bytes(int from, int to, off_t begin, off_t end) {
  std::unique_ptr<std::byte[]> buffer;
  while (begin < end) {
    off_t in = begin;
    off_t out = begin;
    ssize_t n = ::copy_file_range(from, &in, to, &out, static_cast<std::size_t>(end - begin), 0);
    if (n <= 0) {
      if (buffer == nullptr) buffer = std::make_unique<std::byte[]>(kCopyBytes);
      const std::size_t size = std::min<std::size_t>(kCopyBytes, static_cast<std::size_t>(end - begin));
      n = ::pread(from, buffer.get(), size, begin);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errc_from_errno(errno);
      if (n == 0) return Errc::kOk;  // it became shorter meanwhile, by a write of the holder that the move is to fence
      n = ::pwrite(to, buffer.get(), static_cast<std::size_t>(n), begin);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errc_from_errno(errno);
    }
    begin += n;
  }
  return Errc::kOk;
}

/// Copies data as data, and holes as holes.
Errc copy_content(int from, int to) {
  struct stat st{};
  if (::fstat(from, &st) != 0) return errc_from_errno(errno);
  off_t at = 0;
  while (at < st.st_size) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    const off_t begin = data < 0 ? at : data;
    const off_t hole = data < 0 ? st.st_size : ::lseek(from, begin, SEEK_HOLE);
    const off_t end = hole < 0 ? st.st_size : std::min(hole, st.st_size);
    if (const Errc copied = copy_bytes(from, to, begin, end); copied != Errc::kOk) return copied;
    at = end;
  }
  return ::ftruncate(to, st.st_size) == 0 ? Errc::kOk : errc_from_errno(errno);
}

}  // namespace

Errc FolderStore::replace(const DatafileId& id) {
  const Result<Datafile> opened = open(id, false);
  if (opened.code() == Errc::kNotFound) return Errc::kOk;
  if (!opened) return opened.code();
  const std::shared_ptr<LocalDatafile> old = *opened;
  const std::lock_guard lock(stripe(id));
  const DatafilePath path(id);
  const std::string fresh = std::string(path.c_str()) + ".new";
  const int folder = folder_.datafiles.get();
  ::unlinkat(folder, fresh.c_str(), 0);  // of an attempt that was killed
  UniqueFd fd(::openat(folder, fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOATIME | O_NOFOLLOW, 0600));
  if (!fd) return errc_from_errno(errno);
  const ChangeTimes times = old->times();
  Errc status = copy_content(old->fd(), fd.get());
  if (status == Errc::kOk) {
    const int failed = store_times(fd.get(), times);
    if (failed != 0) status = errc_from_errno(failed);
  }
  if (status == Errc::kOk && ::fsync(fd.get()) != 0) status = errc_from_errno(errno);
  if (status == Errc::kOk && ::renameat(folder, fresh.c_str(), folder, path.c_str()) != 0)
    status = errc_from_errno(errno);
  if (status != Errc::kOk) {
    ::unlinkat(folder, fresh.c_str(), 0);
    return status;
  }
  old->mark_unlinked();
  {
    const std::lock_guard table(mutex_);
    const auto it = entries_.find(id);
    if (it != entries_.end()) {
      order_.erase(it->second);
      entries_.erase(it);
    }
  }
  insert(id, std::move(fd), times);
  return sync_entry(id);
}

}  // namespace spate::trove
