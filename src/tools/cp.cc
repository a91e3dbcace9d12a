// SPDX-License-Identifier: Apache-2.0
// `spate cp`: trees and files in and out of the file system, several files at once.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include <fmt/core.h>

#include "base/unique_fd.h"
#include "job/semaphore.h"
#include "tools/copy.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

constexpr std::size_t kFilesAtOnce = 32;
/// A file of at most this much is read whole before it is created, and goes in one write.
constexpr std::uint64_t kWholeBytes = 1U << 20U;

struct CpOptions {
  std::vector<std::string> paths;
  bool recursive = false;
};

WallTime wall(const timespec& t) { return WallTime{std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec}; }
timespec spec(WallTime t) { return {static_cast<time_t>(t.ns / 1'000'000'000), static_cast<long>(t.ns % 1'000'000'000)}; }

/// One run of cp: what its coroutines share. Lives on the frame of copy().
struct Job {
  client::Client& client;
  job::Gate gate;
  job::Gate finishing;  // of directories; closed after `gate`
  job::Semaphore slots;
  Progress progress;
  Result<void> first;                      // the first failure
  std::map<std::pair<dev_t, ino_t>, wire::NamePath> linked;  // local files of several names: where they went
  explicit Job(client::Client& c) : client(c), gate(c.cluster().executor()), finishing(c.cluster().executor()), slots(c.cluster().executor(), kFilesAtOnce) {}
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
  auto made = co_await job.client.symlink(entry.where, target, attributes);
  if (!made) co_return std::move(made).error().within(entry.from);
  co_return Result<void>();
}

/// A further name of a file that is there already, or on its way.
job::Task<Result<void>> link_in(Job& job, const wire::NamePath& first, const Entry& entry) {
  auto units = co_await job.slots.acquire(kFilesAtOnce);  // its first name exists by now
  auto made = co_await job.client.link(first, entry.where);
  if (!made) co_return std::move(made).error().within(entry.from);
  co_return Result<void>();
}

job::Task<Result<void>> tree_in(Job& job, Entry entry) {
  if (::lstat(entry.from.c_str(), &entry.st) != 0) co_return errno_error(errno, entry.from);
  if (!job.first) co_return job.first;
  if (S_ISDIR(entry.st.st_mode)) {
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

job::Task<Result<void>> file_out(Job& job, const std::string& from, const std::string& to, const Attributes& a) {
  const UniqueFd fd(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) co_return errno_error(errno, "create " + to);
  SPATE_CO_TRY(auto file, co_await job.client.open(client::path_from_root(from, false), wire::kOpenRead));
  auto moved = co_await pump_out(*file, fd.get(), true, job.progress);
  auto closed = co_await file->close();
  if (!moved) co_return std::move(moved).error();
  if (!closed) co_return std::move(closed).error();
  if (::geteuid() == 0 && ::fchown(fd.get(), a.uid, a.gid) != 0) co_return errno_error(errno, "chown " + to);
  const timespec times[2] = {spec(a.atime), spec(a.mtime)};
  if (::fchmod(fd.get(), a.mode) != 0 || ::futimens(fd.get(), times) != 0) co_return errno_error(errno, "attributes of " + to);
  co_return Result<void>();
}

job::Task<void> file_out_slot(Job& job, std::string from, std::string to, Attributes attributes) {
  auto units = co_await job.slots.acquire(1);
  auto copied = co_await file_out(job, from, to, attributes);
  if (!copied) job.failed(std::move(copied).error(), "spate:" + from);
  ++job.progress.files;
}

job::Task<Result<void>> tree_out(Job& job, std::string from, std::string to);

job::Task<Result<void>> directory_out(Job& job, const std::string& from, const std::string& to, const Attributes& a) {
  if (::mkdir(to.c_str(), 0700) != 0 && errno != EEXIST) co_return errno_error(errno, "make " + to);
  wire::ReaddirRequest request;
  request.handle = a.handle;
  for (bool end = false; !end;) {
    SPATE_CO_TRY(auto page, co_await job.client.readdir(request));
    for (const wire::DirectoryEntry& entry : page.entries) {
      request.cookie = entry.cookie;
      SPATE_CO_TRY(std::ignore, co_await tree_out(job, join_path(from, entry.name), join_path(to, entry.name)));
    }
    end = page.end || page.entries.empty();
  }
  auto units = co_await job.slots.acquire(kFilesAtOnce);
  const timespec times[2] = {spec(a.atime), spec(a.mtime)};
  if (::geteuid() == 0 && ::chown(to.c_str(), a.uid, a.gid) != 0) co_return errno_error(errno, "chown " + to);
  if (::chmod(to.c_str(), a.mode) != 0 || ::utimensat(AT_FDCWD, to.c_str(), times, 0) != 0) co_return errno_error(errno, "attributes of " + to);
  co_return Result<void>();
}

job::Task<Result<void>> tree_out(Job& job, std::string from, std::string to) {
  if (!job.first) co_return job.first;
  SPATE_CO_TRY(auto object, co_await job.client.stat(client::path_from_root(from, false)));
  const Attributes& a = object.attributes;
  if (a.type == FileType::kDirectory) {
    auto copied = co_await directory_out(job, from, to, a);
    co_return copied;
  }
  if (a.type == FileType::kSymlink) {
    if (::symlink(object.target.c_str(), to.c_str()) != 0) co_return errno_error(errno, "link " + to);
    const timespec times[2] = {spec(a.atime), spec(a.mtime)};
    if (::utimensat(AT_FDCWD, to.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) co_return errno_error(errno, "times of " + to);
    co_return Result<void>();
  }
  if (a.type != FileType::kRegular) co_return Error(Errc::kNotSupported, "spate:" + from + ": neither file, directory nor link");
  {
    auto room = co_await job.slots.acquire(1);
  }
  job::spawn(job.gate, file_out_slot(job, std::move(from), std::move(to), a));
  co_return Result<void>();
}

job::Task<void> show_progress(Job& job, job::StopToken stop) {
  job::Executor& executor = job.client.cluster().executor();
  const MonoTime begin = executor.now();
  for (;;) {
    auto slept = co_await executor.sleep(std::chrono::milliseconds(200), stop);
    const double seconds = std::chrono::duration<double>(executor.now() - begin).count();
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(job.progress.bytes) / std::max(seconds, 0.001));
    fmt::print(stderr, "\r\033[K{} files, {}, {}/s", job.progress.files, human_size(job.progress.bytes), human_size(rate));
    if (!slept) break;
  }
  fmt::print(stderr, "\n");
}

job::Task<Result<void>> copy(client::Client& client, std::string from, std::string to, bool in, bool progress) {
  Job job(client);
  job::Gate drawing(client.cluster().executor());
  job::StopSource done;
  if (progress) job::spawn(drawing, show_progress(job, done));
  Result<void> walked;
  if (in) {
    Entry entry;
    entry.from = from;
    entry.where = client::path_from_root(to);
    walked = co_await tree_in(job, std::move(entry));
  } else {
    walked = co_await tree_out(job, from, to);
  }
  co_await job.gate.close();
  co_await job.finishing.close();
  done.request_stop();
  co_await drawing.close();
  co_return walked ? job.first : walked;
}

/// "spate:/dir" or "dir" as a destination of `source`: into it when it is a directory.
std::string into(assembly::ClientProcess& process, const std::string& source, const std::string& target) {
  const std::string name = split_path(is_remote(source) ? remote_path(source) : source).second;
  if (is_remote(target)) {
    const std::string path = remote_path(target);
    auto there = process.run([&](client::Client& c) { return c.stat(client::path_from_root(path)); });
    return there && there->attributes.type == FileType::kDirectory ? join_path(path, name) : path;
  }
  struct stat st {};
  return ::stat(target.c_str(), &st) == 0 && S_ISDIR(st.st_mode) ? join_path(target, name) : target;
}

int run_cp(Context& context, const CpOptions& options) {
  if (options.paths.size() < 2) return context.usage("cp takes a source and a destination");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const std::string& target = options.paths.back();
  int code = kExitOk;
  for (std::size_t i = 0; i + 1 < options.paths.size(); ++i) {
    const std::string& source = options.paths[i];
    const bool in = !is_remote(source);
    if (in && !is_remote(target)) return context.usage("cp copies in, out or within: source or destination begins with spate:");
    const std::string to = into(**process, source, target);
    struct stat st {};
    const bool tree = in ? ::lstat(source.c_str(), &st) == 0 && S_ISDIR(st.st_mode) : false;
    if (tree && !options.recursive) return context.usage(source + " is a directory: use -r");
    const std::string from = in ? source : remote_path(source);
    const bool progress = !context.quiet && context.stderr_is_terminal();
    const bool within = !in && is_remote(target);
    auto copied = (*process)->run([&](client::Client& client) {
      return within ? copy_within(client, from, to, options.recursive) : copy(client, from, to, in, progress);
    });
    if (!copied) code = context.fail(copied.error());
  }
  return code;
}

}  // namespace

Command make_cp() {
  auto options = std::make_shared<CpOptions>();
  Command command;
  command.name = "cp";
  command.group = "Copy";
  command.summary = "copy files and trees in, out and within, with modes, times and links";
  command.positionals = {{"PATH", "sources, then the destination; one side, or both, begins with spate:", &options->paths, true}};
  command.options = {{"-r,--recursive", "directories with everything below", &options->recursive}};
  command.run = [options](Context& context) { return run_cp(context, *options); };
  return command;
}

}  // namespace spate::tools
