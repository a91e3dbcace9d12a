// SPDX-License-Identifier: Apache-2.0
// Requests that write to files.
#include <fcntl.h>

#include <functional>
#include <future>
#include <thread>

#include "base/thread.h"
#include "fuse/gathering.h"
#include "fuse/mount.h"
#include "fuse/queueing.h"
#include "fuse/setid_bits.h"

namespace spate::fuse {
namespace {

PageOrder::Span span_of(off_t offset, std::size_t size) {
  return PageOrder::Span::of(static_cast<std::uint64_t>(offset), size);
}

void drop_pages_now(Mount& mount, fuse_ino_t inode, std::uint64_t offset, std::size_t size) {
  mount.workers->need_reader();  // it waits for reads of these pages
  std::ignore =
      fuse_lowlevel_notify_inval_inode(mount.session, inode, static_cast<off_t>(offset), static_cast<off_t>(size));
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
/// been read into a locked page. If there is no thread to drop them meanwhile, they are dropped after the answer.
class DoubtfulPages {
 public:
  DoubtfulPages(Mount& mount, fuse_ino_t inode, PageOrder::Span span, const PageOrder::Write& order) {
    if (!order.doubtful()) return;
    mount.order.dropping_again(Handle(inode));
    std::promise<void> begun;
    std::promise<void> dropped;
    const auto begin = begun.get_future();
    const auto done = dropped.get_future();
    const auto drop = [&mount, inode, span] { drop_pages_now(mount, inode, span.first, span.end - span.first); };
    auto drop_meanwhile = [drop, begun = std::move(begun), dropped = std::move(dropped)]() mutable {
      begun.set_value();
      drop();
      dropped.set_value();
    };
    if (!start_thread(thread_, std::move(drop_meanwhile))) {
      drop_later_ = drop;
      return;
    }
    begin.wait();
    std::ignore = done.wait_for(kLockedFor);
  }
  ~DoubtfulPages() {
    if (thread_.joinable()) thread_.join();
    if (drop_later_) drop_later_();
  }
  DoubtfulPages(const DoubtfulPages&) = delete;
  DoubtfulPages& operator=(const DoubtfulPages&) = delete;

 private:
  static constexpr auto kLockedFor = std::chrono::milliseconds(20);  // if it takes longer, a page is locked
  std::thread thread_;
  std::function<void()> drop_later_;
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
  if (info->writepage != 0) order.is_of_map();
  write_in_order(request, inode, as_bytes(std::string_view(data, size)), offset, info, order);
}

}  // namespace

bool appends(const Mount& mount, const fuse_file_info& info) {
  return (info.flags & O_APPEND) != 0 && mount.options.cache != CacheMode::kWriteback;
}

void drop_pages(Mount& mount, fuse_ino_t inode, std::uint64_t offset, std::size_t size) {
  mount.order.dropping(Handle(inode), false);
  drop_pages_now(mount, inode, offset, size);
}

void add_write_operations(fuse_lowlevel_ops& operations) { operations.write = write; }

}  // namespace spate::fuse
