// SPDX-License-Identifier: Apache-2.0
// `spate cp spate:/from to`: copies trees and files out of the file system, several files at once.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/unique_fd.h"
#include "job/semaphore.h"
#include "tools/copy.h"
#include "tools/destination.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

/// A directory that is being copied out. It gets its owner, mode and times when its last holder, the walk or a file in
/// it, has released it. So the walk goes on into the next directory meanwhile.
struct LocalFolder {
  UniqueFd fd;
};
using LocalFolderPtr = std::shared_ptr<const LocalFolder>;

/// The place of a copy: a name in an open folder. So no link that another user makes, or that the copy itself has made,
/// leads out of the folder. Without a folder: the path that the user named, which may be a link.
struct LocalPlace {
  LocalFolderPtr folder;
  std::string name;

  int at() const { return folder == nullptr ? AT_FDCWD : folder->fd.get(); }
  const char* c_str() const { return name.c_str(); }
  /// The flag for open(2).
  int follow() const { return folder == nullptr ? 0 : O_NOFOLLOW; }
};

/// State that the coroutines of one run share. Lives on the frame of copy_out().
struct Out {
  client::Client& client;
  CopyRun& run;
  job::Gate gate;
  job::Semaphore slots;
  std::unordered_map<Handle, LocalPlace> linked;  // files with several names: where each was copied to first
  Out(client::Client& c, CopyRun& r)
      : client(c), run(r), gate(c.cluster().executor()), slots(c.cluster().executor(), kFilesAtOnce) {}
};

/// An object in the file system and the name of its copy; `to` is for messages.
struct Source {
  std::string from;
  std::string to;
  LocalPlace place;
  Attributes attributes;
};

wire::NamePath object_of(const Source& source) {
  wire::NamePath where;
  where.start = source.attributes.handle;
  return where;
}

timespec spec(WallTime t) {
  return {static_cast<time_t>(t.ns / 1'000'000'000), static_cast<long>(t.ns % 1'000'000'000)};
}

/// Whether a name from a server is a valid entry name. This ensures that nothing is written outside the destination.
bool is_entry_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

/// The error of creating `to`, with what is in the way.
Error cannot_make_here(int error, const Source& source) {
  const std::string folder = split_path(source.to).first;
  if (error == ENOENT)
    return Error::told(Errc::kNotFound,
                       source.to + " cannot be made, as there is no " + folder + " (mkdir -p " + folder + " makes it)");
  if (error == EISDIR)
    return Error::told(Errc::kIsDirectory,
                       "cannot overwrite directory " + source.to + " with non-directory spate:" + source.from);
  return errno_error(error, source.to);
}

/// Calls `make` to create an object at a place. If the name exists already and is no directory, removes it first.
template <typename Make>
Result<void> make_anew_here(const Source& source, Make make) {
  if (make() == 0) return {};
  if (errno != EEXIST) return cannot_make_here(errno, source);
  if (::unlinkat(source.place.at(), source.place.c_str(), 0) != 0) return cannot_make_here(errno, source);
  return make() == 0 ? Result<void>() : cannot_make_here(errno, source);
}

/// The destination of a file's data.
struct LocalFile {
  UniqueFd fd;
  bool regular = false;  // false: a device or a fifo: it has no size, and keeps its mode and times
};

/// Removes an access list: the users in it may not be allowed to read the source.
Result<void> remove_access_list(const LocalFile& local, const Source& file) {
  constexpr const char* kList = "system.posix_acl_access";
  if (::fgetxattr(local.fd.get(), kList, nullptr, 0) <= 0) return {};
  if (::fremovexattr(local.fd.get(), kList) == 0) return {};
  return errno_error(errno, "access list of " + file.to + ", to which nothing was written");
}

/// Restricts mode and owner of an existing file to the new ones before any data is written.
Result<void> narrow(const LocalFile& local, const struct stat& st, const Source& file) {
  const Attributes& a = file.attributes;
  SPATE_TRY(std::ignore, remove_access_list(local, file));
  if (::geteuid() == 0 && (st.st_uid != a.uid || st.st_gid != a.gid) && ::fchown(local.fd.get(), a.uid, a.gid) != 0)
    return errno_error(errno, "owner of " + file.to);
  if ((st.st_mode & ~a.mode & kForOthers) == 0) return {};
  if (::fchmod(local.fd.get(), st.st_mode & a.mode & 0777U) != 0)
    return errno_error(errno, "mode of " + file.to + ", to which nothing was written");
  return {};
}

/// Returns -1 and errno on failure. Follows a link only if the user named it; otherwise the file replaces the link.
int open_for_writing(const LocalPlace& place) {
  constexpr int kHow = O_WRONLY | O_CREAT | O_CLOEXEC;
  const int file = ::openat(place.at(), place.c_str(), kHow | O_TRUNC | place.follow(), 0600);
  if (file >= 0 || errno != ELOOP || place.folder == nullptr) return file;
  if (::unlinkat(place.at(), place.c_str(), 0) != 0) return -1;
  return ::openat(place.at(), place.c_str(), kHow | O_EXCL | O_NOFOLLOW, 0600);
}

Result<LocalFile> open_local(const Source& file) {
  LocalFile local;
  local.fd = UniqueFd(open_for_writing(file.place));
  if (!local.fd) return cannot_make_here(errno, file);
  struct stat st{};
  if (::fstat(local.fd.get(), &st) != 0) return errno_error(errno, file.to);
  local.regular = S_ISREG(st.st_mode);
  if (local.regular) {
    SPATE_TRY(std::ignore, narrow(local, st, file));
  }
  return local;
}

/// Sets mode and times, after the data and the owner.
Result<void> finish(int fd, const Source& source) {
  const Attributes& a = source.attributes;
  const timespec times[2] = {spec(a.atime), spec(a.mtime)};
  struct stat st{};
  if (::fstat(fd, &st) != 0 || ::fchmod(fd, owner_of(a).mode_for(st.st_uid, st.st_gid)) != 0 ||
      ::futimens(fd, times) != 0)
    return errno_error(errno, "attributes of " + source.to);
  return {};
}

Result<void> finish_local(const LocalFile& local, const Source& file) {
  if (!local.regular) return {};
  return finish(local.fd.get(), file);
}

/// Whether nothing is to be done. Prints the copy if requested.
bool is_left_out(const Out& out, const Source& source) {
  if (out.run.looks()) {
    const LocalPlace& place = source.place;
    struct stat st{};
    const bool taken =
        ::fstatat(place.at(), place.c_str(), &st, place.folder == nullptr ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
    std::optional<CopyState> there;
    if (taken && S_ISREG(st.st_mode))
      there = CopyState{static_cast<std::uint64_t>(st.st_size),
                        WallTime{std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec}};
    if (out.run.leaves_alone(taken, there, {source.attributes.size, source.attributes.mtime})) return true;
  }
  return !out.run.begin("spate:" + source.from, source.to);
}

/// Whether one request reads the file. Whether it is removed before the open or before the read makes no difference
/// then, so the server need not count the open.
bool is_read_at_once(const Attributes& a) { return a.size_known && a.size <= kAtOnceBytes; }

job::Task<Result<std::unique_ptr<client::File>>> open_source(Out& out, const Source& file) {
  const wire::NamePath object = object_of(file);
  if (is_read_at_once(file.attributes)) {
    std::uint8_t flags = wire::kOpenRead | wire::kOpenUncounted;
    if (client::read_moves_atime(out.client.cluster(), file.attributes)) flags |= wire::kOpenNotesRead;
    auto opened = co_await out.client.open(object, flags);
    if (!opened || is_read_at_once((*opened)->attributes())) co_return opened;
    std::ignore = co_await (*opened)->close();  // it has grown since it was listed
  }
  auto opened = co_await out.client.open(object, wire::kOpenRead);
  co_return opened;
}

job::Task<Result<void>> file_out(Out& out, const Source& file) {
  if (is_left_out(out, file)) co_return Result<void>();
  auto opened = co_await open_source(out, file);
  if (!opened) co_return std::move(opened).error().within("spate:" + file.from);
  auto local = open_local(file);
  Result<void> done;
  if (!local) {
    done = std::move(local).error();
  } else {
    auto moved = co_await pump_out(**opened, local->fd.get(), local->regular, out.run.progress);
    if (!moved) done = std::move(moved).error().within("spate:" + file.from + " to " + file.to);
  }
  auto closed = co_await (*opened)->close();
  if (done && !closed) done = std::move(closed).error().within("spate:" + file.from);
  if (done) done = finish_local(*local, file);
  co_return done;
}

job::Task<void> file_out_in_slot(Out& out, Source file) {
  auto units = co_await out.slots.acquire(weight_of(file.attributes.size));
  if (out.run.troubles.ended()) co_return;
  auto copied = co_await file_out(out, file);
  if (!copied) out.run.troubles.tell(copied.error());
  ++out.run.progress.files;
}

Result<void> symlink_out(const Source& link, const std::string& target) {
  const LocalPlace& place = link.place;
  SPATE_TRY(std::ignore, make_anew_here(link, [&] { return ::symlinkat(target.c_str(), place.at(), place.c_str()); }));
  const timespec times[2] = {spec(link.attributes.atime), spec(link.attributes.mtime)};
  if (::utimensat(place.at(), place.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
    return errno_error(errno, "times of " + link.to);
  return {};
}

/// Makes a further name of a file that was copied already, or is being copied.
job::Task<Result<void>> link_out(Out& out, const LocalPlace& first, const Source& source) {
  auto units = co_await out.slots.acquire(kFilesAtOnce);  // waits until its first name exists
  if (is_left_out(out, source)) co_return Result<void>();
  const LocalPlace& place = source.place;
  co_return make_anew_here(source, [&] { return ::linkat(first.at(), first.c_str(), place.at(), place.c_str(), 0); });
}

job::Task<void> tree_out(Out& out, Source source);

/// `folder`: the copy of the directory; null: none is made.
job::Task<Result<void>> entry_below(Out& out, const Source& directory, const wire::DirectoryEntry& entry,
                                    const LocalFolderPtr& folder) {
  if (!is_entry_name(entry.name))
    co_return Error::told(Errc::kProtocol,
                          "spate:" + directory.from + ": a server gave a name that cannot stand in a directory");
  Source source{join_path(directory.from, entry.name), join_path(directory.to, entry.name), {folder, entry.name}, {}};
  if (folder == nullptr) source.place.name = source.to;
  if (entry.attributes) {
    source.attributes = *entry.attributes;
  } else {
    wire::NamePath there;
    there.start = directory.attributes.handle;
    there.path = entry.name;
    auto object = co_await out.client.stat(there);
    if (!object) co_return std::move(object).error().within("spate:" + source.from);
    source.attributes = object->attributes;
  }
  co_await tree_out(out, std::move(source));
  co_return Result<void>();
}

job::Task<Result<void>> entries_out(Out& out, const Source& directory, const LocalFolderPtr& folder) {
  wire::ReaddirRequest request;
  request.handle = directory.attributes.handle;
  request.attributes = true;
  for (bool end = false; !end && !out.run.troubles.ended();) {
    auto page = co_await out.client.readdir(request);
    if (!page) co_return std::move(page).error().within("spate:" + directory.from);
    for (const wire::DirectoryEntry& entry : page->entries) {
      request.cookie = entry.cookie;
      auto copied = co_await entry_below(out, directory, entry, folder);
      if (!copied) out.run.troubles.tell(copied.error());
    }
    end = page->end || page->entries.empty();
  }
  co_return Result<void>();
}

/// Makes the directory, or takes an existing one, but not through a link. Returns it open.
Result<UniqueFd> make_directory_here(const Source& directory) {
  const LocalPlace& place = directory.place;
  const bool made = ::mkdirat(place.at(), place.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return cannot_make_here(errno, directory);
  UniqueFd folder(::openat(place.at(), place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder && (errno == ENOTDIR || errno == ELOOP)) {
    return Error::told(Errc::kNotDirectory,
                       "cannot overwrite non-directory " + directory.to + " with directory spate:" + directory.from);
  }
  struct stat st{};
  if (!folder || ::fstat(folder.get(), &st) != 0) return errno_error(errno, directory.to);
  const bool wider = !made && (st.st_mode & ~directory.attributes.mode & kForOthers) != 0;
  if (wider && ::fchmod(folder.get(), (st.st_mode & directory.attributes.mode & 0777U) | 0700U) != 0)
    return errno_error(errno, "mode of " + directory.to);
  return folder;
}

Result<void> finish_folder(const LocalFolder& folder, const Source& directory) {
  const Attributes& a = directory.attributes;
  if (::geteuid() == 0 && ::fchown(folder.fd.get(), a.uid, a.gid) != 0)
    return errno_error(errno, "owner of " + directory.to);
  return finish(folder.fd.get(), directory);
}

LocalFolderPtr open_folder(Out& out, UniqueFd made, const Source& directory) {
  const auto end = [&out, directory](const LocalFolder* folder) {
    const std::unique_ptr<const LocalFolder> owned(folder);
    const auto finished = finish_folder(*owned, directory);
    if (!finished) out.run.troubles.tell(finished.error());
  };
  return LocalFolderPtr(new LocalFolder{std::move(made)}, end);
}

job::Task<Result<void>> directory_out(Out& out, const Source& directory) {
  if (!out.run.recursive)
    co_return Error::told(Errc::kInvalidArgument, "spate:" + directory.from + " is a directory: use -r");
  if (!out.run.begin("spate:" + directory.from, directory.to)) {
    auto told = co_await entries_out(out, directory, nullptr);
    co_return told;
  }
  SPATE_CO_TRY(UniqueFd made, make_directory_here(directory));
  const LocalFolderPtr folder = open_folder(out, std::move(made), directory);
  auto copied = co_await entries_out(out, directory, folder);
  co_return copied;
}

job::Task<Result<void>> begin_file_out(Out& out, Source source) {
  if (source.attributes.link_count > 1) {
    const auto [known, fresh] = out.linked.try_emplace(source.attributes.handle, source.place);
    if (!fresh) {
      const LocalPlace first = known->second;
      auto made = co_await link_out(out, first, source);
      co_return made;
    }
  }
  {
    auto room = co_await out.slots.acquire(1);  // also bounds how many are spawned
  }
  job::spawn(out.gate, file_out_in_slot(out, std::move(source)));
  co_return Result<void>();
}

job::Task<Result<void>> object_out(Out& out, Source source) {
  Result<void> copied;
  const FileType type = source.attributes.type;
  if (type == FileType::kDirectory) {
    copied = co_await directory_out(out, source);
  } else if (type == FileType::kSymlink) {
    const wire::NamePath link = object_of(source);
    auto object = co_await out.client.stat(link);
    if (!object) co_return std::move(object).error().within("spate:" + source.from);
    if (!is_left_out(out, source)) copied = symlink_out(source, object->target);
  } else if (type == FileType::kRegular) {
    copied = co_await begin_file_out(out, std::move(source));
  } else {
    copied = Error::told(Errc::kNotSupported, "spate:" + source.from + ": neither file, directory nor link");
  }
  co_return copied;
}

job::Task<void> tree_out(Out& out, Source source) {
  if (out.run.troubles.ended()) co_return;
  auto copied = co_await object_out(out, std::move(source));
  if (!copied) out.run.troubles.tell(copied.error());
}

/// The place that the user named, or a name in the folder that the user named.
Result<LocalPlace> place_of(const CopyParams& params) {
  const auto [folder, name] = split_path(params.to);
  if (!params.inside || name.empty() || name == ".") return LocalPlace{nullptr, params.to};
  UniqueFd opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno_error(errno, folder);
  return LocalPlace{LocalFolderPtr(new LocalFolder{std::move(opened)}), name};
}

}  // namespace

job::Task<void> copy_out(client::Client& client, const CopyList& list, CopyRun& run) {
  Out out(client, run);
  for (const CopyParams& params : list) {
    if (run.troubles.ended()) break;
    auto object = co_await client.stat(client::path_from_root(params.from, false));
    if (!object) {
      run.troubles.tell(std::move(object).error().within("spate:" + params.from));
      continue;
    }
    auto place = place_of(params);
    if (!place) {
      run.troubles.tell(place.error());
      continue;
    }
    Source source{params.from, params.to, *std::move(place), object->attributes};
    co_await tree_out(out, std::move(source));
  }
  co_await out.gate.close();
  out.linked.clear();  // its places hold folders
}

}  // namespace spate::tools
