// SPDX-License-Identifier: Apache-2.0
// Requests on file data: open, create, read, fsync, fallocate, copy.
#include <fcntl.h>

#include <algorithm>
#include <array>

#include "fuse/device.h"
#include "fuse/gathering.h"
#include "fuse/mount.h"
#include "fuse/queueing.h"
#include "fuse/setid_bits.h"
#include "log/log.h"
#include "posix/sparse.h"

namespace spate::fuse {
namespace {

/// The most bytes of one copy_file_range, because the reply's count has 32 bits.
constexpr std::uint64_t kMaxCopyBytes = 1U << 30U;
/// __FMODE_EXEC of the kernel's <linux/fs.h>: execve(2) opens the file.
constexpr int kForExecve = 0x20;

/// The servers see the mount of root as root, so the mount tells them when another user opens a file for writing, or
/// truncates it.
std::uint8_t by_user(std::uint8_t flags) {
  const CurrentRequest& current = CurrentRequest::of_this_thread();
  const bool for_user = current.mount().credential.uid == 0 && current.caller().uid != 0;
  return for_user && (flags & (wire::kOpenWrite | wire::kOpenTruncate)) != 0 ? wire::kOpenByUser : 0;
}

std::uint8_t open_flags(const Mount& mount, int flags) {
  std::uint8_t out = 0;
  const int access = flags & O_ACCMODE;
  if (access == O_RDONLY || access == O_RDWR) out |= wire::kOpenRead;
  if (access == O_WRONLY || access == O_RDWR) out |= wire::kOpenWrite;
  // Before the kernel keeps a part of a page as dirty, it reads the rest of that page.
  if (access == O_WRONLY && mount.options.cache == CacheMode::kWriteback) out |= wire::kOpenRead;
  if ((flags & O_TRUNC) != 0) out |= wire::kOpenTruncate;
  if ((flags & O_EXCL) != 0) out |= wire::kOpenExclusive;
  if ((flags & kForExecve) != 0) out |= wire::kOpenExecute;
  return out;
}

/// An opened file, and whether the kernel may keep its pages of it.
struct Opened {
  std::unique_ptr<client::File> file;
  bool keeps_pages = false;
};

job::Task<Result<Opened>> with_pages(Mount& mount, Result<std::unique_ptr<client::File>> file) {
  if (!file) co_return std::move(file).error();
  Opened opened;
  opened.file = *std::move(file);
  if (mount.options.cache != CacheMode::kNone) opened.keeps_pages = co_await mount.pages.opened(*opened.file);
  co_return std::move(opened);
}

/// No server learns that a program reads from the kernel's pages. With relatime, atime is set all the same if the
/// program reads the beginning or the end of the file, as nearly all programs do.
void drop_ends(Mount& mount, const Attributes& attributes) {
  constexpr std::uint64_t kPage = 4096;
  if (attributes.size == 0) return;
  const std::uint64_t last = (attributes.size - 1) / kPage * kPage;
  for (const std::uint64_t at : {std::uint64_t{0}, last}) drop_pages(mount, attributes.handle.value, at, kPage);
}

/// Notes the open and tells the kernel what to keep of its data.
void remember(Mount& mount, Opened opened, std::uint8_t flags, fuse_file_info* info) {
  std::unique_ptr<client::File>& file = opened.file;
  if ((info->flags & O_NOATIME) != 0) file->forget_reads();
  const bool direct = mount.options.cache == CacheMode::kNone || (info->flags & O_DIRECT) != 0 || appends(mount, *info);
  info->direct_io = direct;
  const bool reads = (info->flags & O_ACCMODE) != O_WRONLY;
  const bool reads_move_atime = reads && file->read_counts() && !mount.read_only->now();
  const bool each_read = mount.process.client().cluster().options().atime == client::Atime::kAlways;
  info->keep_cache = opened.keeps_pages && !(reads_move_atime && each_read);
  if (info->keep_cache != 0 && reads_move_atime) drop_ends(mount, file->attributes());
  info->fh = mount.files.add({std::move(file), Handle(), flags, direct, CurrentRequest::of_this_thread().request_id()});
}

job::Task<Result<Opened>> open_after_close(Mount& mount, client::Client& client, fuse_ino_t inode, std::uint8_t flags,
                                           std::uint64_t request_id) {
  co_await mount.closing.wait(Handle(inode));
  client.session().next_request_id(request_id);  // other tasks may have run in the meantime
  auto file = co_await client.open(node(inode), flags);
  auto opened = co_await with_pages(mount, std::move(file));
  co_return opened;
}

job::Task<Result<Opened>> create_and_open(Mount& mount, client::Client& client, wire::NamePath where,
                                          std::uint8_t flags, client::NewObject object) {
  auto file = co_await client.create(std::move(where), flags, std::move(object));
  auto opened = co_await with_pages(mount, std::move(file));
  co_return opened;
}

/// Called after the answer to an open. Without `error` the kernel has taken the open, and has dropped the pages if it
/// was told to. With `error` it has not taken the open.
void told_of_open(Mount& mount, const Attributes& attributes, const fuse_file_info& info, bool drops, int error) {
  if (error != 0) {
    if (drops) mount.order.not_dropped(attributes.handle);
    mount.pages.spoil(attributes.handle);
    close_file(mount, info.fh);
  } else if (drops && mount.options.cache != CacheMode::kNone) {
    mount.pages.dropped(attributes);
  }
}

/// Answers an open for reading that needs no server. False: it needs one.
bool open_locally(Mount& mount, fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  const bool direct = mount.options.cache == CacheMode::kNone || (info->flags & O_DIRECT) != 0;
  const auto opened = open_queued(mount, request, Handle(inode), direct, (info->flags & O_NOATIME) == 0);
  if (!opened) return false;
  const Attributes& attributes = opened->attributes;
  info->fh = opened->number;
  info->direct_io = direct;
  client::Cluster& cluster = mount.process.client().cluster();
  const bool moves_atime =
      client::read_moves_atime(cluster, attributes) && (info->flags & O_NOATIME) == 0 && !mount.read_only->now();
  const bool each_read = cluster.options().atime == client::Atime::kAlways;
  info->keep_cache = mount.pages.opened_for_reading(attributes) && !(moves_atime && each_read);
  if (info->keep_cache != 0 && moves_atime) note_read(mount, *opened->open);
  const bool drops = info->keep_cache == 0;
  if (drops) mount.order.dropping(attributes.handle, true);
  told_of_open(mount, attributes, *info, drops, answer([&] { return reply_open(request, *info); }));
  return true;
}

void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  Mount& mount = this_mount();
  const std::uint8_t flags = open_flags(mount, info->flags & ~O_EXCL);
  if (flags == wire::kOpenRead && open_locally(mount, request, inode, info)) return;
  const auto asked = static_cast<std::uint8_t>(flags | by_user(flags));
  const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
  auto file = run(request, [&](client::Client& c) { return open_after_close(mount, c, inode, asked, request_id); });
  if (!file) return reply_error(request, file.error());
  const Attributes attributes = file->file->attributes();
  remember(mount, *std::move(file), flags, info);
  const bool drops = info->keep_cache == 0;
  if (drops) mount.order.dropping(attributes.handle, true);
  told_of_open(mount, attributes, *info, drops, answer([&] { return reply_open(request, *info); }));
}

void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Mount& mount = this_mount();
  const bool temporary = CurrentRequest::of_this_thread().hints().temporary;
  const auto flags = static_cast<std::uint8_t>(open_flags(mount, info->flags) | (temporary ? wire::kOpenTemporary : 0));
  const client::NewObject object{new_attributes(request, mode), {}};
  const wire::NamePath where = temporary ? node(parent) : child(parent, name);
  const bool direct = mount.options.cache == CacheMode::kNone || (info->flags & O_DIRECT) != 0 || appends(mount, *info);
  if (const auto made =
          create_queued(mount, request, {where, flags, by_user(flags), direct}, object.attributes, *info)) {
    if (!*made) return reply_error(request, made->error());
    const int error = answer([&] { return reply_create(request, **made, *info); });
    if (error != 0) close_file(mount, info->fh);
    return;
  }
  auto file = change_names(request, [&](client::Client& c) { return create_and_open(mount, c, where, flags, object); });
  if (!file) return reply_error(request, file.error());
  const Attributes attributes = file->file->attributes();
  if (mount.names_files() && !temporary) mount.names.note(attributes.handle, where.start, name);
  fuse_entry_param entry = to_entry(attributes);
  let_keep_briefly(mount, entry);
  if (!temporary) entry.entry_timeout = name_timeout(mount, where, attributes.handle);
  remember(mount, *std::move(file), flags, info);
  const bool drops = info->keep_cache == 0;
  if (drops) mount.order.dropping(attributes.handle, true);  // it may have been there, with pages
  told_of_open(mount, attributes, *info, drops, answer([&] { return reply_create(request, entry, *info); }));
}

/// Answers a read of bytes that are kept here. False: there was no answer.
bool read_kept(Mount& mount, fuse_req_t request, std::size_t size, std::uint64_t offset, const fuse_file_info& info) {
  const auto open = mount.files.find(info.fh);
  if (open == nullptr || !open->known_later || open->is_opened()) return false;
  const auto now = kept_attributes(node(open->handle.value));
  if (!now || !*now) return false;
  std::array<std::byte, client::KeptTails::kPage> bytes{};
  const auto got = mount.tails->read(**now, offset, MutableByteView(bytes).first(std::min(size, bytes.size())));
  if (!got) return false;
  const bool moves = open->moves_atime && !mount.read_only->now();
  if (moves && client::read_moves_atime(mount.process.client().cluster(), **now)) note_read(mount, *open);
  answer([&] { return fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), *got); });
  return true;
}

job::Task<Result<std::uint64_t>> read_in_order(Mount& mount, client::File& file, std::uint64_t offset,
                                               MutableByteView room, pid_t caller) {
  co_await mount.order.before_read(file.handle(), PageOrder::Span::of(offset, room.size()), caller);
  auto got = co_await file.read(offset, room);
  co_return got;
}

void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info* info) {
  thread_local Bytes memory;  // as large as the kernel's largest request
  const bool written =
      this_mount().order.under_way(Handle(inode), PageOrder::Span::of(static_cast<std::uint64_t>(offset), size));
  if (!written && read_kept(this_mount(), request, size, static_cast<std::uint64_t>(offset), *info)) return;
  const auto open = open_file(request, info->fh);
  if (!open) return reply_error(request, open.error());
  if (memory.size() < size) memory.resize(size);
  const MutableByteView room(memory.data(), size);
  Mount& mount = this_mount();
  ReadOnly& read_only = *mount.read_only;
  const pid_t caller = CurrentRequest::of_this_thread().caller().pid;
  const auto got = run(request, [&](client::Client&) {
    client::File& file = *(*open)->file;
    if (file.read_counts() && read_only.now()) file.forget_reads();
    return read_in_order(mount, file, static_cast<std::uint64_t>(offset), room, caller);
  });
  if (!got) return reply_error(request, got.error());
  answer([&] {
    return fuse_reply_buf(request, reinterpret_cast<const char*>(memory.data()), static_cast<std::size_t>(*got));
  });
}

void fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info* info) {
  const auto open = open_file(request, info->fh);
  if (!open) return reply_error(request, open.error());
  const auto synced = run(request, [&](client::Client&) { return (*open)->file->sync(); });
  const auto queued = queued_failure(request, (*open)->handle);  // says more than that a write is lost
  reply_done(request, queued ? synced : queued);
}

/// Finds data or holes. The kernel answers other seeks itself.
void lseek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) {
  const auto open = open_file(request, info->fh);
  if (!open) return reply_error(request, open.error());
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return reply_error(request, Errc::kInvalidArgument);
  const bool hole = whence == SEEK_HOLE;
  const auto found = run(request, [&](client::Client&) { return posix::find_data(*(*open)->file, offset, hole); });
  if (!found) return reply_error(request, found.error());
  answer([&] { return fuse_reply_lseek(request, static_cast<off_t>(*found)); });
}

/// The kernel has written its dirty pages of both ranges. Afterwards it drops the pages of the second range.
/// Whether the kernel should copy by its pages, as it does after EXDEV: the file is small, and the creation of the
/// target is queued, so that nothing waits.
bool pays_by_pages(const Mount& mount, fuse_ino_t from, const fuse_file_info& to) {
  constexpr std::uint64_t kSmall = 64 * 1024;  // what the kernel copies at once
  const auto target = mount.files.find(to.fh);
  if (!mount.gathers || target == nullptr || !target->queued || target->is_opened()) return false;
  const auto kept = mount.process.client().kept_attributes(node(from));
  return kept && *kept && (*kept)->size <= kSmall;
}

void copy_file_range(fuse_req_t request, fuse_ino_t from_inode, off_t from, fuse_file_info* from_info,
                     fuse_ino_t to_inode, off_t to, fuse_file_info* to_info, std::size_t size, int flags) {
  Mount& mount = this_mount();
  if (pays_by_pages(mount, from_inode, *to_info)) {
    answer([&] { return fuse_reply_err(request, EXDEV); });
    return;
  }
  const auto source = open_file(request, from_info->fh);
  if (!source) return reply_error(request, source.error());
  const auto target = open_file(request, to_info->fh);
  if (!target) return reply_error(request, target.error());
  if (flags != 0 || from < 0 || to < 0) return reply_error(request, Errc::kInvalidArgument);
  client::CopySpan span;
  span.from = static_cast<std::uint64_t>(from);
  span.to = static_cast<std::uint64_t>(to);
  span.size = std::min<std::uint64_t>(size, kMaxCopyBytes);
  if (span.to >= kMaxFileBytes) return reply_error(request, Errc::kFileTooBig);
  const auto cleared = clear_setid_bits(request, **target, kills_rights());
  if (!cleared) return reply_error(request, cleared.error());
  mount.pages.spoil(Handle(to_inode));
  const auto copied = run(request, [&](client::Client&) { return (*target)->file->copy_from(*(*source)->file, span); });
  if (!copied) return reply_error(request, copied.error());
  answer([&] { return fuse_reply_write(request, static_cast<std::size_t>(*copied)); });
}

void fallocate(fuse_req_t request, fuse_ino_t inode, int mode, off_t offset, off_t size, fuse_file_info* info) {
  Mount& mount = this_mount();
  const auto open = open_file(request, info->fh);
  if (!open) return reply_error(request, open.error());
  const auto allocation = posix::allocation_of(mode, offset, size);
  if (!allocation) return reply_error(request, allocation.error());
  const auto cleared = clear_setid_bits(request, **open, kills_rights());
  if (!cleared) return reply_error(request, cleared.error());
  if (allocation->zero) mount.pages.spoil(Handle(inode));
  reply_done(request, run(request, [&](client::Client&) { return posix::allocate(*(*open)->file, *allocation); }));
}

}  // namespace

void add_data_operations(fuse_lowlevel_ops& operations) {
  operations.open = open;
  operations.create = create;
  operations.read = read;
  operations.fsync = fsync;
  operations.fallocate = fallocate;
  operations.lseek = lseek;
  operations.copy_file_range = copy_file_range;
}

}  // namespace spate::fuse
