// SPDX-License-Identifier: Apache-2.0
// `spate cp from spate:/to`: trees and files into the file system, several files at once.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include "base/unique_fd.h"
#include "job/semaphore.h"
#include "tools/copy.h"
#include "tools/make_anew.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

/// A file of at most this much is read whole before it is created, and goes in one write.
constexpr std::uint64_t kWholeBytes = 1U << 20U;

WallTime wall(const timespec& t) { return WallTime{std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec}; }

/// One run: what its coroutines share. Lives on the frame of copy_in().
struct Job {
  client::Client& client;
  bool recursive = false;
  job::Gate gate;
  job::Gate finishing;  // of directories; closed after `gate`
  job::Semaphore slots;
  Progress& progress;
  Result<void> first;                      // the first failure
  std::map<std::pair<dev_t, ino_t>, wire::NamePath> linked;  // local files of several names: where they went
  Job(client::Client& c, Progress& p)
      : client(c), gate(c.cluster().executor()), finishing(c.cluster().executor()), slots(c.cluster().executor(), kFilesAtOnce), progress(p) {}
  void failed(Error error, const std::string& name) {
    if (first) first = std::move(error).within(name);
  }
};

/// A directory that is being copied in. It gets its mode and times when the last one who holds it, the walk or a file on its
/// way, lets go.
struct Folder {
  Handle handle;
  std::string name;  // for messages
  struct stat st {};
};
using FolderPtr = std::shared_ptr<Folder>;

/// Something local and the name it gets.
struct Entry {
  std::string from;
  FolderPtr folder;  // null: `where` is a path from the root
  wire::NamePath where;
  struct stat st {};
};

wire::NamePath within(const Folder& folder, const std::string& name) {
  wire::NamePath where;
  where.start = folder.handle;
  where.path = name;
  return where;
}

wire::NewAttributes attributes_of(const struct stat& st) {
  wire::NewAttributes attributes;
  attributes.mode = st.st_mode & 07777U;
  if (::geteuid() == 0) {
    attributes.uid = st.st_uid;
    attributes.gid = st.st_gid;
  }
  return attributes;
}

/// What a small file holds.
struct Whole {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
};

/// Nothing when there is more by now than its size says.
Result<std::optional<Whole>> read_whole(int fd, const struct stat& st) {
  const auto expected = static_cast<std::size_t>(st.st_size);
  Whole whole{std::unique_ptr<std::byte[]>(new std::byte[expected + 1]), 0};
  while (whole.size <= expected) {
    const ssize_t n = ::read(fd, whole.data.get() + whole.size, expected + 1 - whole.size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "read");
    if (n == 0) return std::optional<Whole>(std::move(whole));
    whole.size += static_cast<std::size_t>(n);
  }
  if (::lseek(fd, 0, SEEK_SET) != 0) return errno_error(errno, "seek");
  return std::optional<Whole>();
}

job::Task<Result<void>> write_whole(client::File& file, const Whole& whole, Progress& progress) {
  if (whole.size == 0) co_return Result<void>();
  auto written = co_await file.write(0, ByteView(whole.data.get(), whole.size));
  if (written) progress.bytes += whole.size;
  co_return written;
}

job::Task<Result<void>> file_in(Job& job, const Entry& entry) {
  const UniqueFd fd(::open(entry.from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) co_return errno_error(errno, "open");
  std::optional<Whole> whole;
  if (static_cast<std::uint64_t>(entry.st.st_size) <= kWholeBytes) {
    SPATE_CO_TRY(whole, read_whole(fd.get(), entry.st));
  }
  client::NewObject object;
  object.attributes = attributes_of(entry.st);
  const std::uint8_t flags = wire::kOpenWrite | wire::kOpenTruncate;
  SPATE_CO_TRY(auto file, co_await job.client.create(entry.where, flags, object));
  Result<void> moved;
  if (whole) {
    moved = co_await write_whole(*file, *whole, job.progress);
  } else {
    auto pumped = co_await pump_in(*file, fd.get(), job.progress);
    if (!pumped) moved = std::move(pumped).error();
  }
  client::CloseOptions closing;
  closing.mtime = wall(entry.st.st_mtim);
  closing.atime = wall(entry.st.st_atim);
  auto closed = co_await file->close(closing);
  if (!moved) co_return moved;
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

/// Mode and times of a directory, once nothing is put into it any more.
job::Task<void> finish_folder(Job& job, Handle handle, std::string name, struct stat st) {
  wire::SetattrRequest request;
  request.where.start = handle;
  request.mode = st.st_mode & 07777U;
  request.mtime = wall(st.st_mtim);
  request.atime = wall(st.st_atim);
  auto set = co_await job.client.setattr(request);
  if (!set) job.failed(std::move(set).error(), name);
}

FolderPtr make_folder(Job& job, Handle handle, const std::string& name, const struct stat& st) {
  const auto finish = [&job](Folder* folder) {
    const std::unique_ptr<Folder> owned(folder);
    job::spawn(job.finishing, finish_folder(job, owned->handle, owned->name, owned->st));
  };
  return FolderPtr(new Folder{handle, name, st}, finish);
}

job::Task<void> file_in_slot(Job& job, Entry entry) {
  auto units = co_await job.slots.acquire(1);
  auto copied = co_await file_in(job, entry);
  if (!copied) job.failed(std::move(copied).error(), entry.from);
  ++job.progress.files;
}

job::Task<Result<void>> tree_in(Job& job, Entry entry);

job::Task<Result<void>> entries_in(Job& job, const std::string& from, FolderPtr folder) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(from.c_str());
  if (directory == nullptr) co_return errno_error(errno, from);
  for (const dirent* entry = ::readdir(directory); entry != nullptr; entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(directory);
  for (const std::string& name : names) {
    Entry entry;
    entry.from = join_path(from, name);
    entry.folder = folder;
    entry.where = within(*folder, name);
    SPATE_CO_TRY(std::ignore, co_await tree_in(job, std::move(entry)));
  }
  co_return Result<void>();
}

job::Task<Result<void>> directory_in(Job& job, const Entry& entry) {
  wire::NewAttributes attributes = attributes_of(entry.st);
  attributes.mode |= 0700U;  // until its entries are there
  Handle handle;
  auto made = co_await job.client.mkdir(entry.where, attributes);
  if (made) {
    handle = made->handle;
  } else {
    if (made.code() != Errc::kExists) co_return std::move(made).error().within(entry.from);
    SPATE_CO_TRY(auto there, co_await job.client.lookup(entry.where));
    handle = there.attributes.handle;
  }
  FolderPtr folder = make_folder(job, handle, entry.from, entry.st);
  SPATE_CO_TRY(std::ignore, co_await entries_in(job, entry.from, std::move(folder)));
  co_return Result<void>();
}

job::Task<Result<void>> symlink_in(Job& job, const Entry& entry) {
  std::string target(kMaxSymlinkBytes + 1, '\0');
  const ssize_t n = ::readlink(entry.from.c_str(), target.data(), target.size());
  if (n < 0) co_return errno_error(errno, entry.from);
  target.resize(static_cast<std::size_t>(n));
  wire::NewAttributes attributes = attributes_of(entry.st);
  attributes.mtime = wall(entry.st.st_mtim);
  const auto make = [&] { return job.client.symlink(entry.where, target, attributes); };
  auto made = co_await make_anew(job.client, entry.where, make);
  if (!made) co_return std::move(made).error().within(entry.from);
  co_return Result<void>();
}

/// A further name of a file that is there already, or on its way.
job::Task<Result<void>> link_in(Job& job, const wire::NamePath& first, const Entry& entry) {
  auto units = co_await job.slots.acquire(kFilesAtOnce);  // its first name exists by now
  const auto make = [&] { return job.client.link(first, entry.where); };
  auto made = co_await make_anew(job.client, entry.where, make);
  if (!made) co_return std::move(made).error().within(entry.from);
  co_return Result<void>();
}

job::Task<Result<void>> tree_in(Job& job, Entry entry) {
  if (::lstat(entry.from.c_str(), &entry.st) != 0) co_return errno_error(errno, entry.from);
  if (!job.first) co_return job.first;
  if (S_ISDIR(entry.st.st_mode)) {
    if (!job.recursive) co_return Error(Errc::kInvalidArgument, entry.from + " is a directory: use -r");
    auto copied = co_await directory_in(job, entry);
    co_return copied;
  }
  entry.where.flags = entry.folder ? std::uint8_t{0} : static_cast<std::uint8_t>(wire::NamePath::kRootedLinks);
  if (S_ISLNK(entry.st.st_mode)) {
    auto made = co_await symlink_in(job, entry);
    co_return made;
  }
  if (!S_ISREG(entry.st.st_mode)) co_return Error(Errc::kNotSupported, entry.from + ": neither file, directory nor link");
  const auto key = std::make_pair(entry.st.st_dev, entry.st.st_ino);
  const auto first = job.linked.find(key);
  if (entry.st.st_nlink > 1 && first != job.linked.end()) {
    auto made = co_await link_in(job, first->second, entry);
    co_return made;
  }
  if (entry.st.st_nlink > 1) job.linked[key] = entry.where;
  // As before: a file is written through a link that stands in its place.
  entry.where.flags = wire::NamePath::kFollowLast | wire::NamePath::kRootedLinks;
  {
    auto room = co_await job.slots.acquire(1);  // bounds how many are spawned, too
  }
  job::spawn(job.gate, file_in_slot(job, std::move(entry)));
  co_return Result<void>();
}

}  // namespace

job::Task<Result<void>> copy_in(client::Client& client, CopyWish wish, Progress& progress) {
  Job job(client, progress);
  job.recursive = wish.recursive;
  Entry entry;
  entry.from = std::move(wish.from);
  entry.where = client::path_from_root(std::move(wish.to));
  auto walked = co_await tree_in(job, std::move(entry));
  co_await job.gate.close();
  co_await job.finishing.close();
  co_return walked ? job.first : walked;
}

}  // namespace spate::tools
