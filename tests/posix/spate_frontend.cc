// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <algorithm>
#include <map>
#include <optional>

#include "posix/convert.h"
#include "posix/errno.h"
#include "posix/file_system.h"
#include "tests/cluster/world.h"
#include "tests/posix/frontend.h"

namespace spate::posix_test {
namespace {

using posix::OpenFile;
using posix::PathAt;

template <typename Task>
job::Task<void> keep_result(Task task, std::optional<typename Task::Value>& result) {
  result = co_await std::move(task);
}

job::Task<Result<std::vector<std::string>>> all_entries(OpenFile& file) {
  SPATE_CO_TRY(std::ignore, co_await file.seek(0, SEEK_SET));
  std::vector<std::string> names;
  for (;;) {
    SPATE_CO_TRY(const auto entry, co_await file.next_entry());
    if (!entry) break;
    names.push_back(entry->name + ":" + std::to_string(posix::entry_type(entry->type)));
  }
  std::sort(names.begin(), names.end());
  co_return names;
}

class SpateFrontend final : public Frontend {
 public:
  SpateFrontend(std::string root, std::uint64_t seed)
      : root_(std::move(root)),
        world_(options(seed)),
        client_(world_.start_client()),
        fs_(client_.client(), {0, root_}) {}
  ~SpateFrontend() override {
    for (auto& [fd, file] : files_) std::ignore = run(file->close());
    files_.clear();
  }

  std::string root() const override { return root_; }

  Outcome open(const std::string& path, int flags, unsigned mode) override { return open_where(at(path), flags, mode); }
  Outcome open_at(int directory, const std::string& path, int flags, unsigned mode) override {
    if (path.starts_with('/')) return open_where(at(path), flags, mode);
    OpenFile* const base = find(directory);
    if (base == nullptr) return {-EBADF};
    if (base->type() != FileType::kDirectory) return {-ENOTDIR};
    PathAt where = at(path);
    where.base = base->handle();
    return open_where(std::move(where), flags, mode);
  }
  Outcome close(int fd) override {
    OpenFile* const file = find(fd);
    if (file == nullptr) return {-EBADF};
    const Outcome done = told_of(run(file->close()));
    files_.erase(fd);
    return done;
  }
  Outcome read(int fd, std::size_t size) override {
    return read_by(fd, size,
                   [&](OpenFile& file, std::span<const MutableByteView> memory) { return file.read(memory); });
  }
  Outcome pread(int fd, std::size_t size, std::int64_t offset) override {
    if (offset < 0) return {-EINVAL};
    return read_by(fd, size, [&](OpenFile& file, std::span<const MutableByteView> memory) {
      return file.pread(static_cast<std::uint64_t>(offset), memory);
    });
  }
  Outcome write(int fd, const std::string& data) override {
    return write_by(fd, data, [&](OpenFile& file, std::span<const ByteView> memory) { return file.write(memory); });
  }
  Outcome pwrite(int fd, const std::string& data, std::int64_t offset) override {
    if (offset < 0) return {-EINVAL};
    return write_by(fd, data, [&](OpenFile& file, std::span<const ByteView> memory) {
      return file.pwrite(static_cast<std::uint64_t>(offset), memory);
    });
  }
  Outcome seek(int fd, std::int64_t offset, int whence) override {
    return with(fd, [&](OpenFile& file) { return file.seek(offset, whence); });
  }
  Outcome ftruncate(int fd, std::int64_t size) override {
    return with(fd, [&](OpenFile& file) { return file.truncate(size); });
  }
  Outcome fallocate(int fd, int mode, std::int64_t offset, std::int64_t size) override {
    return with(fd, [&](OpenFile& file) { return file.allocate(mode, offset, size); });
  }
  Outcome fstat(int fd) override {
    return with(fd, [&](OpenFile& file) { return file.stat(); });
  }
  Outcome list(int fd) override {
    return with(fd, [&](OpenFile& file) { return all_entries(file); });
  }

  Outcome stat(const std::string& path, bool follow) override { return told_of(run(fs_.stat(at(path, follow)))); }
  Outcome access(const std::string& path, int wanted) override { return told_of(run(fs_.access(at(path), wanted))); }
  Outcome mkdir(const std::string& path, unsigned mode) override { return done(run(fs_.mkdir(at(path), mode))); }
  Outcome rmdir(const std::string& path) override { return told_of(run(fs_.rmdir(at(path)))); }
  Outcome unlink(const std::string& path) override { return told_of(run(fs_.unlink(at(path)))); }
  Outcome symlink(const std::string& target, const std::string& path) override {
    return done(run(fs_.symlink(target, at(path))));
  }
  Outcome readlink(const std::string& path) override { return told_of(run(fs_.readlink(at(path)))); }
  Outcome link(const std::string& existing, const std::string& path, bool follow) override {
    return done(run(fs_.link(at(existing, follow), at(path))));
  }
  Outcome rename(const std::string& from, const std::string& to, unsigned flags) override {
    return told_of(run(fs_.rename(at(from), at(to), flags)));
  }
  Outcome truncate(const std::string& path, std::int64_t size) override {
    return told_of(run(fs_.truncate(at(path), size)));
  }
  Outcome chmod(const std::string& path, unsigned mode) override {
    wire::SetattrRequest request;
    request.mode = mode & 07777U;
    return done(run(fs_.set_attributes(at(path), request)));
  }
  Outcome mknod(const std::string& path, unsigned mode) override { return done(run(fs_.mknod(at(path), mode, 0))); }
  Outcome utimens(const std::string& path, std::int64_t atime_s, std::int64_t mtime_s) override {
    const timespec times[2] = {{atime_s, 5}, {mtime_s, 6}};
    wire::SetattrRequest request;
    SPATE_CHECK(posix::set_times(times, request).has_value());
    const auto set = run(fs_.set_attributes(at(path), request));
    if (!set) return {-posix::to_errno(set.code())};
    const struct stat st = posix::to_stat(*set);
    return {st.st_atim.tv_sec + st.st_mtim.tv_sec + st.st_atim.tv_nsec + st.st_mtim.tv_nsec};
  }
  Outcome setxattr(const std::string& path, const std::string& name, const std::string& value, int flags) override {
    return told_of(run(fs_.setxattr(at(path), name, to_bytes(as_bytes(value)), flags)));
  }
  Outcome getxattr(const std::string& path, const std::string& name) override {
    const auto value = run(fs_.getxattr(at(path), name));
    if (!value) return {-posix::to_errno(value.code())};
    return {static_cast<std::int64_t>(value->size()), std::string(as_text(*value))};
  }
  Outcome removexattr(const std::string& path, const std::string& name) override {
    return told_of(run(fs_.removexattr(at(path), name)));
  }

 private:
  static cluster::WorldOptions options(std::uint64_t seed) {
    cluster::WorldOptions options;
    options.seed = seed;
    return options;
  }
  static PathAt at(const std::string& path, bool follow = true) {
    PathAt where;
    where.path = path;
    where.follow = follow;
    return where;
  }

  template <typename T>
  T run(job::Task<T> task) {
    std::optional<T> result;
    job::spawn(client_.gate(), keep_result(std::move(task), result));
    const MonoTime limit = world_.now() + std::chrono::minutes(10);
    while (!result) SPATE_CHECK(world_.turn(limit));
    return *std::move(result);
  }

  Outcome told_of(const Result<void>& result) { return {result ? 0 : -posix::to_errno(result.code())}; }
  Outcome told_of(const Result<std::uint64_t>& result) {
    return {result ? static_cast<std::int64_t>(*result) : -posix::to_errno(result.code())};
  }
  Outcome told_of(const Result<Attributes>& result) {
    return result ? told(posix::to_stat(*result)) : Outcome{-posix::to_errno(result.code())};
  }
  Outcome told_of(const Result<std::string>& result) {
    return result ? Outcome{static_cast<std::int64_t>(result->size()), *result}
                  : Outcome{-posix::to_errno(result.code())};
  }
  Outcome told_of(const Result<std::vector<std::string>>& result) {
    if (!result) return {-posix::to_errno(result.code())};
    Outcome all{static_cast<std::int64_t>(result->size())};
    for (const std::string& name : *result) all.text += name + " ";
    return all;
  }
  Outcome done(const Result<Attributes>& result) { return {result ? 0 : -posix::to_errno(result.code())}; }

  OpenFile* find(int fd) {
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : found->second.get();
  }
  template <typename Call>
  Outcome with(int fd, Call call) {
    OpenFile* const file = find(fd);
    return file == nullptr ? Outcome{-EBADF} : told_of(run(call(*file)));
  }
  Outcome open_where(PathAt where, int flags, unsigned mode) {
    posix::OpenRequest request;
    request.where = std::move(where);
    request.flags = flags;
    request.mode = mode;
    auto opened = run(fs_.open(std::move(request)));
    if (!opened) return {-posix::to_errno(opened.code())};
    int fd = 0;
    while (files_.contains(fd)) ++fd;
    files_[fd] = *std::move(opened);
    return {fd};
  }
  template <typename Call>
  Outcome read_by(int fd, std::size_t size, Call call) {
    OpenFile* const file = find(fd);
    if (file == nullptr) return {-EBADF};
    std::string data(size, '\xEE');
    const MutableByteView memory(reinterpret_cast<std::byte*>(data.data()), size);
    const auto got = run(call(*file, std::span(&memory, 1)));
    if (!got) return {-posix::to_errno(got.code())};
    return {static_cast<std::int64_t>(*got), data.substr(0, static_cast<std::size_t>(*got))};
  }
  template <typename Call>
  Outcome write_by(int fd, const std::string& data, Call call) {
    OpenFile* const file = find(fd);
    if (file == nullptr) return {-EBADF};
    const ByteView memory = as_bytes(data);
    return told_of(run(call(*file, std::span(&memory, 1))));
  }

  const std::string root_;
  cluster::World world_;
  cluster::ClientProcess& client_;
  posix::FileSystem fs_;
  std::map<int, std::unique_ptr<OpenFile>> files_;
};

}  // namespace

std::unique_ptr<Frontend> make_spate_frontend(const std::string& root, std::uint64_t seed) {
  return std::make_unique<SpateFrontend>(root, seed);
}

}  // namespace spate::posix_test
