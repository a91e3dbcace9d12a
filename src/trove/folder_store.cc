// SPDX-License-Identifier: Apache-2.0
#include "trove/folder_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "trove/datafile_name.h"

namespace spate::trove {
namespace {

// O_NOATIME: the access time holds the change counter. It also refuses files that another user owns.
constexpr int kOpenFlags = O_RDWR | O_CLOEXEC | O_NOATIME | O_NOFOLLOW;
constexpr mode_t kMode = 0600;

Errc open_error(int error_number) {
  if (error_number == EMFILE || error_number == ENFILE) return Errc::kTryAgain;
  return errc_from_errno(error_number);
}

/// openat that fails with EAGAIN if it would have to read a directory from the device. Returns -1 and errno on failure.
int open_cached(int folder, const char* path) {
  open_how how{};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_CACHED;
  return static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how));
}

}  // namespace

FolderStore::FolderStore(TargetFolder& folder, ChangeRecords* records, std::size_t max_open)
    : folder_(folder), records_(records), max_open_(std::max<std::size_t>(1, max_open)) {}

FolderStore::~FolderStore() {
  // A failure leaves the change record, which the next start applies.
  for (Entry& entry : order_) entry.datafile->write_back();
}

std::mutex& FolderStore::stripe(const DatafileId& id) {
  return stripes_[std::hash<DatafileId>()(id) % stripes_.size()];
}

std::size_t FolderStore::open_count() const {
  const std::lock_guard lock(mutex_);
  return order_.size();
}

FolderStore::Datafile FolderStore::find(const DatafileId& id) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return nullptr;
  order_.splice(order_.begin(), order_, it->second);
  return it->second->datafile;
}

FolderStore::Datafile FolderStore::insert(const DatafileId& id, UniqueFd fd, const ChangeTimes& times) {
  auto datafile = std::make_shared<LocalDatafile>(id, std::move(fd), times, records_);
  const std::lock_guard lock(mutex_);
  order_.push_front({id, datafile});
  entries_.emplace(id, order_.begin());
  return datafile;
}

Result<FolderStore::Datafile> FolderStore::adopt(const DatafileId& id, UniqueFd fd, bool created) {
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return errc_from_errno(errno);
  if (!S_ISREG(st.st_mode)) return Errc::kCorrupt;
  if ((st.st_mode & 07777U) != kMode && ::fchmod(fd.get(), kMode) != 0) return errc_from_errno(errno);
  return insert(id, std::move(fd), created ? ChangeTimes{} : ChangeTimes::restore(st));
}

UniqueFd FolderStore::open_file(const DatafileId& id, int flags) {
  const DatafilePath path(id);
  UniqueFd fd(::openat(folder_.datafiles.get(), path.c_str(), kOpenFlags | flags, kMode));
  if (fd || (errno != EMFILE && errno != ENFILE)) return fd;
  make_room(open_count() / 2, true);
  return UniqueFd(::openat(folder_.datafiles.get(), path.c_str(), kOpenFlags | flags, kMode));
}

Result<FolderStore::Datafile> FolderStore::open(const DatafileId& id, bool create) {
  make_room(max_open_ - 1, true);
  const std::lock_guard lock(stripe(id));
  if (Datafile datafile = find(id)) return datafile;
  // A program that writes many new files would otherwise look for each of them first.
  const bool make_first = create && makes_.load(std::memory_order_relaxed);
  for (const bool make : {make_first, !make_first}) {
    if (make && !create) break;
    // A file that this process makes has no history: its counter begins at the first change.
    UniqueFd fd = open_file(id, make ? O_CREAT | O_EXCL : 0);
    if (fd) {
      if (create) makes_.store(make, std::memory_order_relaxed);
      return adopt(id, std::move(fd), make);
    }
    if (make && errno == ENOENT) return Errc::kCorrupt;  // the hashed folder itself is missing
    if (errno != (make ? EEXIST : ENOENT)) return open_error(errno);
  }
  return open_error(errno);
}

Result<FolderStore::Datafile> FolderStore::try_open(const DatafileId& id) {
  std::unique_lock lock(stripe(id), std::try_to_lock);
  if (!lock.owns_lock()) return Errc::kTryAgain;
  if (Datafile datafile = find(id)) return datafile;
  if (!make_room(max_open_ - 1, false)) return Errc::kTryAgain;
  UniqueFd fd(open_cached(folder_.datafiles.get(), DatafilePath(id).c_str()));
  if (!fd) return errno == ENOENT ? Errc::kNotFound : Errc::kTryAgain;  // any other error: the blocking way reports it
  return adopt(id, std::move(fd), false);
}

FolderStore::Datafile FolderStore::pick_victim(bool may_block) {
  constexpr int kLooked = 64;
  int looked = 0;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    // New references are made only under mutex_, so a datafile that only this table references stays so.
    if (it->datafile.use_count() == 1 && (may_block || !it->datafile->dirty())) return it->datafile;
    if (!may_block && ++looked == kLooked) return nullptr;
  }
  return nullptr;
}

void FolderStore::put_out(const Datafile& victim) {
  // It stays in the table until it is written back, since the next open of the file must find its counter in the inode.
  const bool failed = victim->write_back() != Errc::kOk;
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(victim->id());
  if (it == entries_.end() || it->second->datafile != victim || victim.use_count() != 2) return;
  if (failed) {
    order_.splice(order_.begin(), order_, it->second);  // out of the way of the next victims
    return;
  }
  if (victim->dirty()) return;
  order_.erase(it->second);
  entries_.erase(it);
}

bool FolderStore::make_room(std::size_t limit, bool may_block) {
  for (std::size_t tries = 0; tries < 8; ++tries) {
    Datafile victim;
    {
      const std::lock_guard lock(mutex_);
      if (order_.size() <= limit) return true;
      victim = pick_victim(may_block);
    }
    if (victim == nullptr) return false;
    put_out(victim);
  }
  return open_count() <= limit;
}

Errc FolderStore::remove(const DatafileId& id) {
  const std::lock_guard lock(stripe(id));
  const DatafilePath path(id);
  if (::unlinkat(folder_.datafiles.get(), path.c_str(), 0) != 0 && errno != ENOENT) return errc_from_errno(errno);
  const std::lock_guard table(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return Errc::kOk;
  it->second->datafile->mark_unlinked();
  order_.erase(it->second);
  entries_.erase(it);
  return Errc::kOk;
}

Errc FolderStore::sync_entry(const DatafileId& id) {
  const std::string name = hash_folder_name(hash_folder(id));
  const UniqueFd fd(::openat(folder_.datafiles.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return open_error(errno);
  return Errc::kOk;
}

Result<std::vector<DatafileId>> FolderStore::read_folder(unsigned folder) {
  const std::string name = hash_folder_name(folder);
  UniqueFd fd(::openat(folder_.datafiles.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error(errno, "list datafiles of " + folder_.path + "/d/" + name);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), ::closedir);
  if (stream == nullptr) return errno_error(errno, "list datafiles");
  fd.release();
  std::vector<DatafileId> ids;
  for (errno = 0; const dirent* entry = ::readdir(stream.get()); errno = 0) {
    const std::string_view text = entry->d_name;
    if (text == "." || text == "..") continue;
    const std::optional<DatafileId> id = parse_datafile_name(text);
    if (id && hash_folder(*id) == folder) ids.push_back(*id);
  }
  if (errno != 0) return errno_error(errno, "list datafiles of " + folder_.path + "/d/" + name);
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<std::vector<DatafileId>> FolderStore::list(const DatafileId& after, std::size_t max) {
  const bool from_start = !after.handle;
  std::vector<DatafileId> page;
  for (unsigned folder = from_start ? 0 : hash_folder(after); folder < kHashFolders && page.size() < max; ++folder) {
    SPATE_TRY(const std::vector<DatafileId> ids, read_folder(folder));
    for (const DatafileId& id : ids) {
      const bool is_after = from_start || ListPosition{folder, id} > ListPosition{hash_folder(after), after};
      if (is_after && page.size() < max) page.push_back(id);
    }
  }
  return page;
}

}  // namespace spate::trove
