// SPDX-License-Identifier: Apache-2.0
#include "trove/lease_page.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "trove/change_records.h"

namespace spate::trove {
namespace {

constexpr const char* kFolderName = "leases";
constexpr mode_t kPageMode = 0600;

Result<UniqueFd> open_folder(int target, bool make) {
  if (make && ::mkdirat(target, kFolderName, 0700) != 0 && errno != EEXIST)
    return errno_error(errno, "make folder for leases");
  UniqueFd fd(::openat(target, kFolderName, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error(errno, "open folder for leases");
  return fd;
}

std::string fresh_name() {
  static std::atomic<std::uint64_t> last{0};
  return std::to_string(::getpid()) + "." + std::to_string(++last);
}

LeaseWords& words_of(const SharedPage& page) { return *reinterpret_cast<LeaseWords*>(page.data()); }
DatafileId datafile_of(const LeaseWords& words) { return {Handle(words.handle), words.slot}; }

}  // namespace

FolderLeasePage::FolderLeasePage(int folder, std::string name, SharedPage page)
    : LeasePage(datafile_of(words_of(page)), words_of(page).writable != 0),
      folder_(folder),
      name_(std::move(name)),
      page_(std::move(page)) {}

FolderLeasePage::~FolderLeasePage() {
  if (!name_.empty()) ::unlinkat(folder_, name_.c_str(), 0);
  ::close(folder_);
}

Result<std::unique_ptr<LeasePage>> FolderLeasePage::make(int folder, const LeaseTitle& title) {
  SPATE_TRY(UniqueFd leases, open_folder(folder, true));
  const std::string name = fresh_name();
  ::unlinkat(leases.get(), name.c_str(), 0);  // of an earlier process that had this number
  const UniqueFd fd(
      ::openat(leases.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kPageMode));
  // The space is allocated now. On a full device a later store to the page would end this process.
  if (!fd || ::posix_fallocate(fd.get(), 0, SharedPage::kBytes) != 0) {
    ::unlinkat(leases.get(), name.c_str(), 0);
    return errno_error(fd ? ENOSPC : errno, "make a lease");
  }
  SPATE_TRY(SharedPage page, SharedPage::map(fd.get(), true));
  auto* const words = new (page.data()) LeaseWords();
  words->handle = title.datafile.handle.value;
  words->client = title.client.value;
  words->slot = title.datafile.slot;
  words->epoch = title.epoch;
  words->writable = title.writable ? 1 : 0;
  words->counter = title.counter;
  const std::string boot = current_boot_id();
  std::memcpy(words->boot_id, boot.data(), std::min(boot.size(), sizeof words->boot_id));
  return std::unique_ptr<LeasePage>(new FolderLeasePage(leases.release(), name, std::move(page)));
}

Result<std::unique_ptr<LeasePage>> FolderLeasePage::adopt(int folder, const std::string& name) {
  const UniqueFd fd(::openat(folder, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno_error(errno, "open lease " + name);
  SPATE_TRY(SharedPage page, SharedPage::map(fd.get(), true));
  const auto* const words = reinterpret_cast<const LeaseWords*>(page.data());
  const std::string boot = current_boot_id();
  const bool same_boot = !boot.empty() && boot.size() <= sizeof words->boot_id &&
                         std::memcmp(words->boot_id, boot.data(), boot.size()) == 0;
  if (words->magic != LeaseWords::kMagic || words->handle == 0 || !same_boot)
    return Error(Errc::kCorrupt, "no lease of this boot");
  UniqueFd own(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (!own) return errno_error(errno, "open lease " + name);
  return std::unique_ptr<LeasePage>(new FolderLeasePage(own.release(), name, std::move(page)));
}

Result<std::vector<std::unique_ptr<LeasePage>>> FolderLeasePage::left_over(int folder) {
  std::vector<std::unique_ptr<LeasePage>> pages;
  auto leases = open_folder(folder, false);
  if (!leases) return pages;  // none was ever granted
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(::fcntl(leases->get(), F_DUPFD_CLOEXEC, 0)), ::closedir);
  if (stream == nullptr) return errno_error(errno, "list leases");
  for (errno = 0; const dirent* entry = ::readdir(stream.get()); errno = 0) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    auto page = adopt(leases->get(), name);
    if (page) {
      pages.push_back(*std::move(page));
    } else if (page.code() == Errc::kCorrupt) {
      ::unlinkat(leases->get(), name.c_str(), 0);
    } else {
      return std::move(page).error();
    }
  }
  return pages;
}

Result<UniqueFd> FolderLeasePage::descriptor() const {
  const int flags = writable() ? O_RDWR : O_RDONLY;
  UniqueFd fd(::openat(folder_, name_.c_str(), flags | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno_error(errno, "pass a lease");
  return fd;
}

}  // namespace spate::trove
