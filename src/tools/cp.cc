// SPDX-License-Identifier: Apache-2.0
// `spate cp`: trees and files in and out of the file system, several files at once.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <set>

#include <fmt/core.h>

#include "base/unique_fd.h"
#include "job/semaphore.h"
#include "tools/copy.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

constexpr std::size_t kFilesAtOnce = 16;

struct Options {
  std::vector<std::string> paths;
  bool recursive = false;
};

WallTime wall(const timespec& t) { return WallTime{std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec}; }
timespec spec(WallTime t) { return {static_cast<time_t>(t.ns / 1'000'000'000), static_cast<long>(t.ns % 1'000'000'000)}; }

/// One run of cp: what its coroutines share. Lives on the frame of copy().
struct Job {
  client::Client& client;
  job::Gate gate;
  job::Semaphore slots;
  Progress progress;
  Result<void> first;                      // the first failure
  std::map<std::pair<dev_t, ino_t>, std::string> linked;  // local files of several names: where they went
  explicit Job(client::Client& c) : client(c), gate(c.cluster().executor()), slots(c.cluster().executor(), kFilesAtOnce) {}
  void failed(Error error, const std::string& name) {
    if (first) first = std::move(error).within(name);
  }
};

wire::NewAttributes attributes_of(const struct stat& st) {
  wire::NewAttributes attributes;
  attributes.mode = st.st_mode & 07777U;
  if (::geteuid() == 0) {
    attributes.uid = st.st_uid;
    attributes.gid = st.st_gid;
  }
  return attributes;
}

job::Task<Result<void>> file_in(Job& job, const std::string& from, const std::string& to, const struct stat& st) {
  const UniqueFd fd(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) co_return errno_error(errno, "open");
  client::NewObject object;
  object.attributes = attributes_of(st);
  const std::uint8_t flags = wire::kOpenWrite | wire::kOpenTruncate;
  SPATE_CO_TRY(auto file, co_await job.client.create(client::path_from_root(to), flags, object));
  auto moved = co_await pump_in(*file, fd.get(), job.progress);
  client::CloseOptions closing;
  closing.mtime = wall(st.st_mtim);
  closing.atime = wall(st.st_atim);
  auto closed = co_await file->close(closing);
  if (!moved) co_return std::move(moved).error();
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

job::Task<void> file_in_slot(Job& job, std::string from, std::string to, struct stat st) {
  auto units = co_await job.slots.acquire(1);
  auto copied = co_await file_in(job, from, to, st);
  if (!copied) job.failed(std::move(copied).error(), from);
  ++job.progress.files;
}

job::Task<Result<void>> tree_in(Job& job, std::string from, std::string to);

job::Task<Result<void>> entries_in(Job& job, const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  DIR* directory = ::opendir(from.c_str());
  if (directory == nullptr) co_return errno_error(errno, from);
  for (const dirent* entry = ::readdir(directory); entry != nullptr; entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(directory);
  for (const std::string& name : names) {
    SPATE_CO_TRY(std::ignore, co_await tree_in(job, join_path(from, name), join_path(to, name)));
  }
  co_return Result<void>();
}

job::Task<Result<void>> directory_in(Job& job, const std::string& from, const std::string& to, const struct stat& st) {
  wire::NewAttributes attributes = attributes_of(st);
  attributes.mode |= 0700U;  // until its entries are there
  auto made = co_await job.client.mkdir(client::path_from_root(to), attributes);
  if (!made && made.code() != Errc::kExists) co_return std::move(made).error().within(to);
  SPATE_CO_TRY(std::ignore, co_await entries_in(job, from, to));
  co_return Result<void>();
}

/// Modes and times of directories, once nothing is put into them any more.
job::Task<Result<void>> finish_directory(Job& job, const std::string& to, const struct stat& st) {
  wire::SetattrRequest request;
  request.where = client::path_from_root(to);
  request.mode = st.st_mode & 07777U;
  request.mtime = wall(st.st_mtim);
  request.atime = wall(st.st_atim);
  auto set = co_await job.client.setattr(request);
  if (!set) co_return std::move(set).error().within(to);
  co_return Result<void>();
}

job::Task<Result<void>> tree_in(Job& job, std::string from, std::string to) {
  struct stat st {};
  if (::lstat(from.c_str(), &st) != 0) co_return errno_error(errno, from);
  if (!job.first) co_return job.first;
  if (S_ISDIR(st.st_mode)) {
    SPATE_CO_TRY(std::ignore, co_await directory_in(job, from, to, st));
    if (!job.first) co_return job.first;
    const std::string where = to;
    auto units = co_await job.slots.acquire(kFilesAtOnce);  // this directory's files are all there
    auto finished = co_await finish_directory(job, where, st);
    co_return finished;
  }
  if (S_ISLNK(st.st_mode)) {
    std::string target(kMaxSymlinkBytes + 1, '\0');
    const ssize_t n = ::readlink(from.c_str(), target.data(), target.size());
    if (n < 0) co_return errno_error(errno, from);
    target.resize(static_cast<std::size_t>(n));
    wire::NewAttributes attributes = attributes_of(st);
    attributes.mtime = wall(st.st_mtim);
    auto made = co_await job.client.symlink(client::path_from_root(to, false), target, attributes);
    if (!made) co_return std::move(made).error().within(to);
    co_return Result<void>();
  }
  if (!S_ISREG(st.st_mode)) co_return Error(Errc::kNotSupported, from + ": neither file, directory nor link");
  const auto key = std::make_pair(st.st_dev, st.st_ino);
  if (st.st_nlink > 1 && job.linked.contains(key)) {
    auto units = co_await job.slots.acquire(kFilesAtOnce);  // its first name exists by now
    auto made = co_await job.client.link(client::path_from_root(job.linked[key], false), client::path_from_root(to, false));
    if (!made) co_return std::move(made).error().within(to);
    co_return Result<void>();
  }
  if (st.st_nlink > 1) job.linked[key] = to;
  {
    auto room = co_await job.slots.acquire(1);  // bounds how many are spawned, too
  }
  job::spawn(job.gate, file_in_slot(job, std::move(from), std::move(to), st));
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
    walked = co_await tree_in(job, from, to);
  } else {
    walked = co_await tree_out(job, from, to);
  }
  co_await job.gate.close();
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

int run_cp(Context& context, const Options& options) {
  if (options.paths.size() < 2) return context.usage("cp takes a source and a destination");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  const std::string& target = options.paths.back();
  int code = kExitOk;
  for (std::size_t i = 0; i + 1 < options.paths.size(); ++i) {
    const std::string& source = options.paths[i];
    const bool in = !is_remote(source);
    if (in == !is_remote(target)) return context.usage("cp copies in or out: exactly one of source and destination begins with spate:");
    const std::string to = into(**process, source, target);
    struct stat st {};
    const bool tree = in ? ::lstat(source.c_str(), &st) == 0 && S_ISDIR(st.st_mode) : false;
    if (tree && !options.recursive) return context.usage(source + " is a directory: use -r");
    const std::string from = in ? source : remote_path(source);
    const bool progress = !context.quiet && context.stderr_is_terminal();
    auto copied = (*process)->run([&](client::Client& client) { return copy(client, from, to, in, progress); });
    if (!copied) code = context.fail(copied.error());
  }
  return code;
}

}  // namespace

Command make_cp() {
  auto options = std::make_shared<Options>();
  Command command;
  command.name = "cp";
  command.group = "Copy";
  command.summary = "copy files and trees in and out, with modes, times and links";
  command.positionals = {{"PATH", "sources, then the destination; one side begins with spate:", &options->paths, true}};
  command.options = {{"-r,--recursive", "directories with everything below", &options->recursive}};
  command.run = [options](Context& context) { return run_cp(context, *options); };
  return command;
}

}  // namespace spate::tools
