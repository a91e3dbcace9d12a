// SPDX-License-Identifier: Apache-2.0
// Requests on file data: open, create, read, write, fsync, fallocate.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <future>
#include <thread>

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

/// Whether a write goes to the end that the file has at the servers, not to the end that the kernel knows. With
/// write-back, dirty pages have their places already; then only one client writes, and it knows the end.
bool appends(const Mount& mount, const fuse_file_info& info) {
  return (info.flags & O_APPEND) != 0 && mount.options.cache != CacheMode::kWriteback;
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

/// The kernel has nothing, or old data, at the place where the data went. Other programs that have the file open here
/// may read that.
void drop_pages_now(Mount& mount, fuse_ino_t inode, std::uint64_t offset, std::size_t size) {
  mount.workers->need_reader();  // it waits for reads of these pages
  std::ignore =
      fuse_lowlevel_notify_inval_inode(mount.session, inode, static_cast<off_t>(offset), static_cast<off_t>(size));
}

void drop_pages(Mount& mount, fuse_ino_t inode, std::uint64_t offset, std::size_t size) {
  mount.order.dropping(Handle(inode));
  drop_pages_now(mount, inode, offset, size);
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
  if (drops) mount.order.dropping(attributes.handle);
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
  if (drops) mount.order.dropping(attributes.handle);
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
  if (drops) mount.order.dropping(attributes.handle);  // it may have been there, with pages
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

PageOrder::Span span_of(off_t offset, std::size_t size) {
  const auto first = static_cast<std::uint64_t>(offset);
  return {first, first + size};
}

job::Task<Result<std::uint64_t>> read_in_order(Mount& mount, client::File& file, std::uint64_t offset,
                                               MutableByteView room, pid_t caller) {
  co_await mount.order.before_read(file.handle(), {offset, offset + room.size()}, caller);
  auto got = co_await file.read(offset, room);
  co_return got;
}

void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset, fuse_file_info* info) {
  thread_local Bytes memory;  // as large as the kernel's largest request
  const bool written = this_mount().order.under_way(Handle(inode), span_of(offset, size));
  if (!written && read_kept(this_mount(), request, size, static_cast<std::uint64_t>(offset), *info)) return;
  const auto open = open_file(request, info->fh);
  if (!open) return reply_error(request, open.error());
  if (memory.size() < size) memory.resize(size);
  const MutableByteView room(memory.data(), size);
  Mount& mount = this_mount();
  ReadOnly& read_only = *mount.read_only;
  const auto got = run(request, [&](client::Client&) {
    client::File& file = *(*open)->file;
    if (file.read_counts() && read_only.now()) file.forget_reads();
    const pid_t caller = CurrentRequest::of_this_thread().caller().pid;
    return read_in_order(mount, file, static_cast<std::uint64_t>(offset), room, caller);
  });
  if (!got) return reply_error(request, got.error());
  answer([&] {
    return fuse_reply_buf(request, reinterpret_cast<const char*>(memory.data()), static_cast<std::size_t>(*got));
  });
}

/// Whether a write must be synced. If the kernel keeps no pages of the file, it sends no fsync for O_SYNC, O_DSYNC and
/// RWF_DSYNC.
bool must_sync(const OpenFile& open, const fuse_file_info& info) {
  return open.direct && (info.flags & (O_SYNC | O_DSYNC)) != 0;
}

job::Task<Result<std::uint64_t>> append_bytes(client::File& file, ByteView bytes, bool synced,
                                              client::FileGather* gather) {
  const std::array<ByteView, 1> memory{bytes};
  SPATE_CO_TRY(const std::uint64_t end, co_await file.append(memory, {}, gather));
  if (synced) {
    SPATE_CO_TRY(std::ignore, co_await file.sync());
  }
  co_return end;
}

job::Task<Result<void>> write_bytes(client::File& file, std::uint64_t offset, ByteView bytes, bool synced) {
  SPATE_CO_TRY(std::ignore, co_await file.write(offset, bytes));
  if (synced) {
    SPATE_CO_TRY(std::ignore, co_await file.sync());
  }
  co_return Result<void>();
}

/// After an append through an open that keeps no pages. The kernel may have pages of the file's end from before, and
/// others that have the file open read new ones. Nobody does if this open has been alone since the pages were dropped;
/// what is open for writing only cannot be mapped.
void drop_tail(Mount& mount, OpenFile& open, const fuse_file_info& info, std::uint64_t end, std::size_t size) {
  const bool alone = (info.flags & O_ACCMODE) == O_WRONLY && mount.files.is_alone(info.fh);
  if (!alone || !open.tail_dropped) drop_pages(mount, open.handle.value, end, size);
  open.tail_dropped = alone;
}

void append(fuse_req_t request, fuse_ino_t inode, OpenFile& open, ByteView bytes, const fuse_file_info& info,
            PageOrder::Write& order) {
  const bool synced = must_sync(open, info);
  Mount& mount = this_mount();
  client::FileGather* const gather = gathering(mount, open, info);
  const auto end = run(request, [&](client::Client&) { return append_bytes(*open.file, bytes, synced, gather); });
  order.applied();  // a read that waits for it may hold a page that is dropped below
  // The kernel's earlier pages stay correct, and it has none of the appended data.
  if (!end || !open.direct || (info.flags & O_DIRECT) != 0) mount.pages.spoil(open.handle);
  if (!end) {
    reply_error(request, end.error());
    return mount.handover.end_append(CurrentRequest::of_this_thread().request_id());
  }
  // If O_APPEND was set after the open, a write through the kernel's pages holds these pages until it is answered.
  if (open.direct) drop_tail(mount, open, info, *end, bytes.size());
  answer([&] { return fuse_reply_write(request, bytes.size()); });
  if (!open.direct) drop_pages(mount, inode, 0, 0);
  mount.handover.end_append(CurrentRequest::of_this_thread().request_id());  // the kernel will not repeat it
}

/// Drops the pages of a doubtful write, so that the program does not read older bytes after write(2) has returned. The
/// kernel may hold the last of them locked until the answer, which is made while this object lives. Nothing can have
/// been read into a locked page.
class DoubtfulPages {
 public:
  DoubtfulPages(Mount& mount, fuse_ino_t inode, PageOrder::Span span, const PageOrder::Write& order) {
    if (!order.doubtful()) return;
    mount.order.dropping_again(Handle(inode));
    std::promise<void> dropped;
    const auto done = dropped.get_future();
    thread_ = std::thread([&mount, inode, span, dropped = std::move(dropped)]() mutable {
      drop_pages_now(mount, inode, span.first, span.end - span.first);
      dropped.set_value();
    });
    std::ignore = done.wait_for(kLockedFor);
  }
  ~DoubtfulPages() {
    if (thread_.joinable()) thread_.join();
  }
  DoubtfulPages(const DoubtfulPages&) = delete;
  DoubtfulPages& operator=(const DoubtfulPages&) = delete;

 private:
  static constexpr auto kLockedFor = std::chrono::milliseconds(5);  // if it takes longer, a page is locked
  std::thread thread_;
};

/// A write to a file that the servers have not made yet. False: there was no answer.
bool write_early(Mount& mount, fuse_req_t request, ByteView bytes, off_t offset, const fuse_file_info& info,
                 PageOrder::Write& order) {
  const auto open = mount.files.find(info.fh);
  if (open == nullptr || appends(mount, info)) return false;
  const auto kept = write_queued(mount, request, *open, info, static_cast<std::uint64_t>(offset), bytes);
  if (kept && !*kept) return false;
  if (open->direct || !kept || CurrentRequest::of_this_thread().abandoned()) {
    open->pages_differ = true;
    mount.pages.spoil(open->handle);
  }
  order.applied();
  const DoubtfulPages pages(mount, open->handle.value, span_of(offset, bytes.size()), order);
  if (!kept) return reply_error(request, kept.error()), true;
  answer([&] { return fuse_reply_write(request, bytes.size()); });
  return true;
}

void write_in_order(fuse_req_t request, fuse_ino_t inode, ByteView bytes, off_t offset, const fuse_file_info* info,
                    PageOrder::Write& order) {
  Mount& mount = this_mount();
  if (write_early(mount, request, bytes, offset, *info, order)) return;
  const auto open = open_file(request, info->fh);
  if (!open) return reply_error(request, open.error());
  const bool kills = CurrentRequest::of_this_thread().hints().kills_rights;
  const auto cleared = clear_setid_bits(request, **open, kills);
  if (!cleared) return reply_error(request, cleared.error());
  if (appends(mount, *info)) return append(request, inode, **open, bytes, *info, order);
  const bool synced = must_sync(**open, *info);
  const auto at = static_cast<std::uint64_t>(offset);
  client::FileGather* const gather = gathering(mount, **open, *info);
  const auto done = run(request, [&](client::Client&) {
    return gather != nullptr ? gather->write(at, bytes) : write_bytes(*(*open)->file, at, bytes, synced);
  });
  order.applied();
  const DoubtfulPages pages(mount, inode, span_of(offset, bytes.size()), order);
  if ((*open)->direct || !done || CurrentRequest::of_this_thread().abandoned()) mount.pages.spoil(Handle(inode));
  if (!done) return reply_error(request, done.error());
  answer([&] { return fuse_reply_write(request, bytes.size()); });
}

void write(fuse_req_t request, fuse_ino_t inode, const char* data, std::size_t size, off_t offset,
           fuse_file_info* info) {
  Mount& mount = this_mount();
  const CurrentRequest& current = CurrentRequest::of_this_thread();
  PageOrder::Write order(mount.order, Handle(inode), span_of(offset, size), current.caller().pid,
                         current.hints().sent_again);
  write_in_order(request, inode, as_bytes(std::string_view(data, size)), offset, info, order);
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
  operations.write = write;
  operations.fsync = fsync;
  operations.fallocate = fallocate;
  operations.lseek = lseek;
  operations.copy_file_range = copy_file_range;
}

}  // namespace spate::fuse
