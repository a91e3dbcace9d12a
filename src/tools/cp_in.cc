// SPDX-License-Identifier: Apache-2.0
// `spate cp from spate:/to`: copies trees and files into the file system, several files at once.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tools/copy_walk.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

WallTime wall(const timespec& t) { return WallTime{std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec}; }

/// A directory that is being copied in. It gets its mode and times when its last holder, the walk or a file in it, has
/// released it.
struct Folder {
  wire::SetattrRequest final_attributes;  // of its handle
  std::string name;                       // for messages
};
using FolderPtr = std::shared_ptr<Folder>;

/// A directory that the walk is in.
struct LevelIn : CopyLevel {
  FolderPtr folder;  // its copy; null in a dry run, which makes none
  std::vector<std::string> names;
  std::size_t next = 0;  // of them
};

struct Job : CopyWalk {
  job::Gate finishing;  // of directories; closed after `gate`
  // Local files with several names: where each was copied to first.
  std::map<std::pair<dev_t, ino_t>, wire::NamePath> linked;
  std::vector<LevelIn> levels;
  Job(client::Client& its_client, CopyRun& its_run)
      : CopyWalk(its_client, its_run, kFilesAtOnce), finishing(its_client.cluster().executor()) {}
};

/// A local object and the name of its copy.
struct Entry {
  Destination destination;
  FolderPtr folder;     // null: named on the command line, so the place is a path from the root
  bool inside = false;  // below the destination
  struct stat st{};
};

Owned local_owner(const struct stat& st) { return {st.st_mode & 07777U, st.st_uid, st.st_gid}; }
wire::NewAttributes attributes_of(const struct stat& st) { return attributes_for_copy(local_owner(st)); }
CopyState state_of(const struct stat& st) { return {static_cast<std::uint64_t>(st.st_size), wall(st.st_mtim)}; }

/// Opens the file that was examined. Other users who may rename in its folder could have put another file, or a link,
/// in its place.
Result<UniqueFd> open_source(const std::string& path, const struct stat& st, bool follow) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW)));
  if (!fd) return errno_error(errno, path);
  struct stat now{};
  if (::fstat(fd.get(), &now) != 0) return errno_error(errno, path);
  if (now.st_dev == st.st_dev && now.st_ino == st.st_ino) return fd;
  return Error::told(Errc::kTryAgain, path + " was replaced while it was copied");
}

/// The contents of a small file.
struct SmallFile {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
};

/// Reads a regular file. Nothing if it has grown beyond its size.
Result<std::optional<SmallFile>> read_whole(int fd, const struct stat& st) {
  const auto expected = static_cast<std::size_t>(st.st_size);
  SmallFile whole{std::unique_ptr<std::byte[]>(new std::byte[expected + 1]), 0};
  while (whole.size <= expected) {
    const ssize_t n = ::read(fd, whole.data.get() + whole.size, expected + 1 - whole.size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "read");
    whole.size += static_cast<std::size_t>(n);
    // A read of a regular file ends before its room is full only at the file's end.
    if (n == 0 || whole.size == expected) return std::optional<SmallFile>(std::move(whole));
  }
  if (::lseek(fd, 0, SEEK_SET) != 0) return errno_error(errno, "seek");
  return std::optional<SmallFile>();
}

job::Task<Result<void>> write_whole(client::File& file, const SmallFile& whole, Progress& progress) {
  if (whole.size == 0) co_return Result<void>();
  auto written = co_await file.write(0, ByteView(whole.data.get(), whole.size));
  if (written) progress.bytes += whole.size;
  co_return written;
}

/// Whether the file may have holes: it has fewer blocks than its size needs.
bool may_have_holes(const struct stat& st) {
  constexpr std::int64_t kWorthwhile = 64 << 10;
  return st.st_size > kWorthwhile && st.st_blocks < st.st_size / 512;
}

/// Writes the data, after the mode. `whole` holds all of it, or nothing yet.
job::Task<Result<void>> fill_in(Job& job, const Entry& entry, client::File& file, int fd,
                                const std::optional<SmallFile>& whole) {
  const Owned source = local_owner(entry.st);
  SPATE_CO_TRY(std::ignore, co_await adopt_attributes(job.client, file, source));
  Result<void> moved;
  if (whole) {
    moved = co_await write_whole(file, *whole, job.run.progress);
  } else {
    auto pumped = co_await pump_in(file, fd, may_have_holes(entry.st), job.run.progress);
    if (!pumped) moved = std::move(pumped).error();
  }
  if (moved) moved = co_await lend_rights_again(job.client, file, source);
  co_return moved;
}

job::Task<Result<void>> file_in(Job& job, Entry entry) {
  const Destination& destination = entry.destination;
  const CopyState source = state_of(entry.st);
  SPATE_CO_TRY(const bool left_out, co_await job.is_left_out(destination, source));
  if (left_out) co_return Result<void>();
  SPATE_CO_TRY(const UniqueFd fd, open_source(destination.from, entry.st, !job.run.recursive));
  std::optional<SmallFile> whole;
  // Such a file is read completely before it is created.
  if (static_cast<std::uint64_t>(entry.st.st_size) <= kAtOnceBytes && !may_have_holes(entry.st)) {
    auto read = read_whole(fd.get(), entry.st);
    if (!read) co_return std::move(read).error().within(destination.from);
    whole = *std::move(read);
  }
  client::NewObject object;
  object.attributes = attributes_of(entry.st);
  SPATE_CO_TRY(auto file, co_await create_file(job.client, destination, object));
  auto moved = co_await fill_in(job, entry, *file, fd.get(), whole);
  client::CloseOptions closing;
  if (moved) {  // otherwise it must not look like a complete copy
    closing.mtime = wall(entry.st.st_mtim);
    closing.atime = wall(entry.st.st_atim);
  }
  auto closed = co_await file->close(std::move(closing));
  if (moved && !closed) moved = std::move(closed).error();
  if (!moved) co_return std::move(moved).error().within(destination.from + " to spate:" + destination.to);
  co_return Result<void>();
}

/// Sets mode and times of a directory after everything has been put into it.
job::Task<void> finish_folder(Job& job, Folder folder) {
  if (job.run.errors.ended()) co_return;
  auto set = co_await job.client.setattr(folder.final_attributes);
  if (!set) job.run.errors.tell(std::move(set).error().within("spate:" + folder.name));
}

FolderPtr make_folder(Job& job, const Attributes& there, const Entry& entry) {
  const auto finish = [&job](Folder* folder) {
    const std::unique_ptr<Folder> owned(folder);
    job::spawn(job.finishing, finish_folder(job, std::move(*owned)));
  };
  wire::SetattrRequest final_attributes = owner_and_mode(there, local_owner(entry.st));
  final_attributes.mtime = wall(entry.st.st_mtim);
  final_attributes.atime = wall(entry.st.st_atim);
  return FolderPtr(new Folder{std::move(final_attributes), entry.destination.to}, finish);
}

Result<std::vector<std::string>> local_names(const std::string& folder) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return errno_error(errno, folder);
  errno = 0;
  for (const dirent* entry = ::readdir(directory); entry != nullptr; entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  const int error = errno;
  ::closedir(directory);
  if (error != 0) return errno_error(error, folder);
  return names;
}

job::Task<Result<void>> enter_directory(Job& job, const Entry& entry) {
  const Destination& destination = entry.destination;
  if (!job.run.recursive) co_return Error::told(Errc::kInvalidArgument, destination.from + " is a directory: use -r");
  LevelIn level;
  SPATE_CO_TRY(level.names, local_names(destination.from));
  wire::NewAttributes attributes = attributes_of(entry.st);
  attributes.mode |= 0700U;  // until its entries are there
  if (job.run.begin(destination.from, "spate:" + destination.to)) {
    SPATE_CO_TRY(const Attributes there, co_await make_or_find_directory(job.client, destination, attributes));
    level.folder = make_folder(job, there, entry);
  }
  job.enter(level, destination.from, destination.to);
  job.levels.push_back(std::move(level));
  co_return Result<void>();
}

/// The next entry of the directory that the walk is in.
Entry next_entry(const Job& job, LevelIn& level) {
  const std::string& name = level.names[level.next++];
  Entry below;
  below.destination.from = join_path(job.from, name);
  below.destination.to = join_path(job.to, name);
  below.destination.where = level.folder != nullptr ? name_in(level.folder->final_attributes.where.start, name)
                                                    : client::path_from_root(below.destination.to, false);
  below.folder = level.folder;
  below.inside = true;
  return below;
}

job::Task<Result<void>> symlink_in(Job& job, const Entry& entry) {
  std::string target(kMaxSymlinkBytes + 1, '\0');
  const ssize_t n = ::readlink(entry.destination.from.c_str(), target.data(), target.size());
  if (n < 0) co_return errno_error(errno, entry.destination.from);
  target.resize(static_cast<std::size_t>(n));
  const CopyState source = state_of(entry.st);
  SPATE_CO_TRY(const bool left_out, co_await job.is_left_out(entry.destination, source));
  if (left_out) co_return Result<void>();
  wire::NewAttributes attributes = attributes_of(entry.st);
  attributes.mtime = wall(entry.st.st_mtim);
  const auto make = [&] { return job.client.symlink(entry.destination.where, target, attributes); };
  auto made = co_await make_anew(job.client, entry.destination, make);
  co_return made;
}

/// Makes a further name of a file that was copied already, or is being copied.
job::Task<Result<void>> link_in(Job& job, const wire::NamePath& first, const Entry& entry) {
  auto units = co_await job.slots.acquire(kFilesAtOnce);  // waits until its first name exists
  const CopyState source = state_of(entry.st);
  SPATE_CO_TRY(const bool left_out, co_await job.is_left_out(entry.destination, source));
  if (left_out) co_return Result<void>();
  const auto make = [&] { return job.client.link(first, entry.destination.where); };
  auto made = co_await make_anew(job.client, entry.destination, make);
  co_return made;
}

job::Task<Result<void>> begin_file(Job& job, Entry entry) {
  wire::NamePath& where = entry.destination.where;
  const auto key = std::make_pair(entry.st.st_dev, entry.st.st_ino);
  const auto first = job.linked.find(key);
  if (entry.st.st_nlink > 1 && first != job.linked.end()) {
    auto made = co_await link_in(job, first->second, entry);
    co_return made;
  }
  if (entry.st.st_nlink > 1) job.linked[key] = where;
  // A name that the user gave may be a link.
  if (!entry.inside) where.flags = wire::NamePath::kFollowLast | wire::NamePath::kRootedLinks;
  const std::size_t weight = weight_of(static_cast<std::uint64_t>(entry.st.st_size));
  auto copy = file_in(job, std::move(entry));
  co_await job.begin_file(weight, std::move(copy));
  co_return Result<void>();
}

job::Task<Result<void>> entry_in(Job& job, Entry entry) {
  const std::string& from = entry.destination.from;
  const int how = job.run.recursive ? AT_SYMLINK_NOFOLLOW : 0;
  if (::fstatat(AT_FDCWD, from.c_str(), &entry.st, how) != 0) co_return errno_error(errno, from);
  Result<void> copied;
  if (S_ISDIR(entry.st.st_mode)) {
    copied = co_await enter_directory(job, entry);
    co_return copied;
  }
  entry.destination.where.flags =
      entry.folder ? std::uint8_t{0} : static_cast<std::uint8_t>(wire::NamePath::kRootedLinks);
  if (S_ISLNK(entry.st.st_mode)) {
    copied = co_await symlink_in(job, entry);
  } else if (S_ISREG(entry.st.st_mode)) {
    copied = co_await begin_file(job, std::move(entry));
  } else {
    copied = Error::told(Errc::kNotSupported, from + ": neither file, directory nor link");
  }
  co_return copied;
}

/// Uses a stack of its own, since a path of single letters has thousands of levels.
job::Task<void> tree_in(Job& job, Entry entry) {
  auto copy = entry_in(job, std::move(entry));
  co_await job.attempt(std::move(copy));
  while (!job.levels.empty()) {
    LevelIn& level = job.levels.back();
    if (level.next == level.names.size() || job.run.errors.ended()) {
      job.levels.pop_back();
      continue;
    }
    job.return_to(level);
    copy = entry_in(job, next_entry(job, level));
    co_await job.attempt(std::move(copy));  // may enter a directory
  }
}

}  // namespace

job::Task<void> copy_in(client::Client& client, const CopyList& list, CopyRun& run) {
  Job job(client, run);
  for (const CopyParams& params : list) {
    Entry entry;
    entry.destination.from = params.from;
    entry.destination.to = params.to;
    entry.inside = params.inside;
    entry.destination.where = client::path_from_root(params.to);
    co_await tree_in(job, std::move(entry));
  }
  co_await job.gate.close();
  co_await job.finishing.close();
}

}  // namespace spate::tools
