// SPDX-License-Identifier: Apache-2.0
// Opens and closes files; other calls on an open file, except for its data.
#include <algorithm>
#include <cerrno>
#include <climits>

#include "capi/handles.h"
#include "dist/registry.h"
#include "posix/convert.h"

namespace spate::capi {
namespace {

using posix::OpenFile;

Work open_file(spate_fs* fs, posix::OpenRequest request, spate_file** out) {
  auto handle = std::make_unique<spate_file>();
  handle->fs = fs;
  handle->name = request.where.path.empty() ? "inode " + std::to_string(request.where.base.value) : request.where.path;
  SPATE_CO_TRY(handle->file, co_await fs->posix->open(std::move(request)));
  ++fs->in_use;
  *out = handle.release();
  co_return 0;
}

/// Frees the handle, whatever the result is.
Work close_file(spate_file* file) {
  auto closed = co_await file->file->close();
  --file->fs->in_use;
  delete file;
  if (!closed) co_return std::move(closed).error();
  co_return 0;
}

Work seek_to(OpenFile& file, off_t offset, int whence) {
  SPATE_CO_TRY(const std::uint64_t position, co_await file.seek(offset, whence));
  co_return static_cast<std::int64_t>(position);
}

struct CopyCall {
  spate_file* from = nullptr;
  spate_file* to = nullptr;
  OpenFile::CopyParams params;
};

/// `call` outlives the task.
Work copy_range(const CopyCall& call) {
  SPATE_CO_TRY(const std::uint64_t copied, co_await call.to->file->copy_from(*call.from->file, call.params));
  co_return static_cast<std::int64_t>(copied);
}

Work sync_file(OpenFile& file) {
  SPATE_CO_TRY(std::ignore, co_await file.sync());
  co_return 0;
}

Work truncate_file(OpenFile& file, off_t size) {
  SPATE_CO_TRY(std::ignore, co_await file.truncate(size));
  co_return 0;
}

Work allocate_in(OpenFile& file, int mode, off_t offset, off_t size) {
  SPATE_CO_TRY(std::ignore, co_await file.allocate(mode, offset, size));
  co_return 0;
}

Work flock_file(OpenFile& file, int operation) {
  SPATE_CO_TRY(std::ignore, co_await file.flock(operation));
  co_return 0;
}

Work lock_file(OpenFile& file, int cmd, struct flock* lock) {
  const posix::RecordLock params{*lock, 0, true};
  if (cmd == F_OFD_GETLK) {
    SPATE_CO_TRY(*lock, co_await file.get_lock(params));
    co_return 0;
  }
  if (cmd != F_OFD_SETLK && cmd != F_OFD_SETLKW) co_return Errc::kInvalidArgument;
  SPATE_CO_TRY(std::ignore, co_await file.set_lock(params, cmd == F_OFD_SETLKW));
  co_return 0;
}

Work stat_file(OpenFile& file, struct stat* out) {
  SPATE_CO_TRY(const Attributes attributes, co_await file.stat());
  *out = file.file() == nullptr ? posix::to_stat(attributes)
                                : posix::to_stat(attributes, file.file()->layout().strip_bytes);
  co_return 0;
}

Work set_attributes(OpenFile& file, wire::SetattrRequest request) {
  SPATE_CO_TRY(std::ignore, co_await file.set_attributes(std::move(request)));
  co_return 0;
}

Work layout_of(spate_file& handle, spate_layout* out) {
  OpenFile& file = *handle.file;
  if (file.file() == nullptr) co_return file.type() == FileType::kDirectory ? Errc::kIsDirectory : Errc::kBadDescriptor;
  const Layout& layout = file.file()->layout();
  out->strip_bytes = layout.strip_bytes;
  out->target_count = static_cast<std::uint32_t>(layout.slots.size());
  out->first_target = layout.slots.front().targets.front().value;
  if (handle.distribution.empty()) handle.distribution = describe(layout.distribution);
  out->distribution = handle.distribution.c_str();
  co_return 0;
}

posix::OpenRequest open_request(posix::PathAt where, int flags, mode_t mode) {
  posix::OpenRequest request;
  request.where = std::move(where);
  request.flags = flags;
  request.mode = mode;
  return request;
}

Result<wire::LayoutHints> hints_of(const spate_layout* layout) {
  wire::LayoutHints hints;
  if (layout == nullptr) return hints;
  if (layout->distribution != nullptr) {
    SPATE_TRY(hints.distribution, parse_distribution(layout->distribution));
  }
  if (layout->strip_bytes != 0) hints.strip_bytes = layout->strip_bytes;
  if (layout->target_count != 0) hints.slot_count = layout->target_count;
  if (layout->first_target != 0) hints.first_target = TargetId(layout->first_target);
  return hints;
}

int refuse_close(const spate_file& file) {
  return refuse(Error(Errc::kBusy, file.name + ": operations on it have not been waited for"));
}

}  // namespace
}  // namespace spate::capi

using namespace spate::capi;

extern "C" {

int spate_open_layout(spate_fs* fs, const char* path, int flags, mode_t mode, const struct spate_layout* layout,
                      spate_file** file) {
  if (file != nullptr) *file = nullptr;
  if (fs == nullptr || path == nullptr || file == nullptr) return refuse_null("fs, path or file");
  auto request = open_request(at(path), flags, mode);
  auto hints = hints_of(layout);
  if (!hints) return refuse(hints.error());
  request.layout = std::move(*hints);
  return static_cast<int>(now(fs, path, [&] { return open_file(fs, request, file); }));
}

int spate_open_inode(spate_fs* fs, uint64_t inode, int flags, spate_file** file) {
  if (file != nullptr) *file = nullptr;
  if (fs == nullptr || file == nullptr) return refuse_null("fs or file");
  if ((flags & (O_CREAT | O_EXCL | (O_TMPFILE & ~O_DIRECTORY))) != 0)
    return refuse_argument("an inode is opened, not created");
  const auto request = open_request(spate::posix::PathAt::object(spate::Handle(inode)), flags, 0);
  return static_cast<int>(now(fs, "inode " + std::to_string(inode), [&] { return open_file(fs, request, file); }));
}

int spate_open(spate_fs* fs, const char* path, int flags, mode_t mode, spate_file** file) {
  return spate_open_layout(fs, path, flags, mode, nullptr, file);
}

int spate_openat(spate_file* directory, const char* path, int flags, mode_t mode, spate_file** file) {
  if (file != nullptr) *file = nullptr;
  if (directory == nullptr || path == nullptr || file == nullptr) return refuse_null("directory, path or file");
  spate_fs* const fs = directory->fs;
  if (directory->file->type() != spate::FileType::kDirectory && *path != '/') return refuse(spate::Errc::kNotDirectory);
  return static_cast<int>(
      now(fs, path, [&] { return open_file(fs, open_request(at(*directory, path), flags, mode), file); }));
}

int spate_open_start(spate_fs* fs, const char* path, int flags, mode_t mode, spate_file** file, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (file != nullptr) *file = nullptr;
  if (fs == nullptr || path == nullptr || file == nullptr || op == nullptr) return refuse_null("fs, path, file or op");
  return later(
      fs, path, nullptr,
      [fs, request = open_request(at(path), flags, mode), file] { return open_file(fs, request, file); }, op);
}

int spate_close(spate_file* file) {
  if (file == nullptr) return refuse_null("file");
  if (file->started != 0) return refuse_close(*file);
  const std::string name = file->name;  // a copy, because the handle is freed meanwhile
  return static_cast<int>(now(file->fs, name, [=] { return close_file(file); }));
}

int spate_close_start(spate_file* file, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (file == nullptr || op == nullptr) return refuse_null("file or op");
  if (file->started != 0) return refuse_close(*file);
  return later(file->fs, file->name, nullptr, [=] { return close_file(file); }, op);
}

off_t spate_lseek(spate_file* file, off_t offset, int whence) {
  if (file == nullptr) return refuse_null("file");
  return now(file, [=] { return seek_to(*file->file, offset, whence); });
}

ssize_t spate_copy_file_range(spate_file* from, off_t* from_offset, spate_file* to, off_t* to_offset, size_t size,
                              unsigned flags) {
  if (from == nullptr || to == nullptr) return refuse_null("from or to");
  if (flags != 0) return refuse_argument("copy_file_range has no flags");
  if (from->fs != to->fs) return refuse(spate::Errc::kCrossDevice);
  CopyCall call{from, to, {}};
  if (from_offset != nullptr) call.params.from = *from_offset;
  if (to_offset != nullptr) call.params.to = *to_offset;
  call.params.size = std::min<std::size_t>(size, SSIZE_MAX);
  const std::int64_t copied = now(to, [&call] { return copy_range(call); });
  if (copied > 0 && from_offset != nullptr) *from_offset += copied;
  if (copied > 0 && to_offset != nullptr) *to_offset += copied;
  return copied;
}

int spate_fsync(spate_file* file) {
  if (file == nullptr) return refuse_null("file");
  return static_cast<int>(now(file, [=] { return sync_file(*file->file); }));
}

int spate_fsync_start(spate_file* file, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (file == nullptr || op == nullptr) return refuse_null("file or op");
  return later(file, [=] { return sync_file(*file->file); }, op);
}

int spate_ftruncate(spate_file* file, off_t size) {
  if (file == nullptr) return refuse_null("file");
  return static_cast<int>(now(file, [=] { return truncate_file(*file->file, size); }));
}

int spate_ftruncate_start(spate_file* file, off_t size, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (file == nullptr || op == nullptr) return refuse_null("file or op");
  return later(file, [=] { return truncate_file(*file->file, size); }, op);
}

int spate_flock(spate_file* file, int operation) {
  if (file == nullptr) return refuse_null("file");
  return static_cast<int>(now(file, [=] { return flock_file(*file->file, operation); }));
}

int spate_lock(spate_file* file, int cmd, struct flock* lock) {
  if (file == nullptr || lock == nullptr) return refuse_null("file or lock");
  return static_cast<int>(now(file, [=] { return lock_file(*file->file, cmd, lock); }));
}

int spate_fallocate(spate_file* file, int mode, off_t offset, off_t size) {
  if (file == nullptr) return refuse_null("file");
  return static_cast<int>(now(file, [=] { return allocate_in(*file->file, mode, offset, size); }));
}

int spate_fstat(spate_file* file, struct stat* st) {
  if (file == nullptr || st == nullptr) return refuse_null("file or st");
  return static_cast<int>(now(file, [=] { return stat_file(*file->file, st); }));
}

int spate_fstat_start(spate_file* file, struct stat* st, spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (file == nullptr || st == nullptr || op == nullptr) return refuse_null("file, st or op");
  return later(file, [=] { return stat_file(*file->file, st); }, op);
}

int spate_fchmod(spate_file* file, mode_t mode) {
  if (file == nullptr) return refuse_null("file");
  spate::wire::SetattrRequest request;
  request.mode = mode & 07777U;
  return static_cast<int>(now(file, [&] { return set_attributes(*file->file, request); }));
}

int spate_fchown(spate_file* file, uid_t uid, gid_t gid) {
  if (file == nullptr) return refuse_null("file");
  spate::wire::SetattrRequest request;
  if (uid != static_cast<uid_t>(-1)) request.uid = uid;
  if (gid != static_cast<gid_t>(-1)) request.gid = gid;
  return static_cast<int>(now(file, [&] { return set_attributes(*file->file, request); }));
}

int spate_futimens(spate_file* file, const struct timespec times[2]) {
  if (file == nullptr) return refuse_null("file");
  spate::wire::SetattrRequest request;
  const auto set = spate::posix::set_times(times, request);
  if (!set) return refuse(set.error());
  return static_cast<int>(now(file, [&] { return set_attributes(*file->file, request); }));
}

int spate_get_layout(spate_file* file, struct spate_layout* layout) {
  if (file == nullptr || layout == nullptr) return refuse_null("file or layout");
  return static_cast<int>(now(file, [=] { return layout_of(*file, layout); }));
}

}  // extern "C"
