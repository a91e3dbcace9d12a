// SPDX-License-Identifier: Apache-2.0
// Ends of opens: the request release, and the opens that an earlier process has left.
#include "fuse/mount.h"
#include "fuse/queueing.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

void call_answered(Mount& mount, std::uint64_t request_id) {
  mount.handover.call_answered(request_id);
  mount.process.client().cluster().queued().log().call_answered(request_id);
}

/// The handover state keeps the open until the meta server has ended it, which may happen after this task has failed.
job::Task<Result<void>> close_now(Mount& mount, client::Client& client, std::shared_ptr<OpenFile> open,
                                  std::uint64_t request_id) {
  UniqueFunction<void()> on_ended = [files = mount.shared_files, open] { files->forget(*open); };
  if (open->file == nullptr && open->queued) {
    SPATE_CO_TRY(open->file, co_await open_created(mount, client, *open));
    client.session().next_request_id(request_id);  // the open has used it
  }
  if (open->file == nullptr && closed_before(mount, *open, request_id)) {
    mount.files.forget(*open);
    co_return Result<void>();
  }
  if (open->file == nullptr) {
    auto closed = co_await client.close_inherited(*open->record, std::move(on_ended));
    co_return closed;
  }
  const bool wrote = allows(open->file->rights(), Rights::kWrite);
  if (wrote) mount.closing.begin(open->handle);
  auto closed = co_await mount.pages.close(*open->file, std::move(on_ended));
  if (wrote) mount.closing.end(open->handle);
  if (!closed) co_return std::move(closed).error();
  co_return Result<void>();
}

job::Task<Result<void>> close_one(Mount& mount, client::Client& client, std::shared_ptr<OpenFile> open,
                                  std::uint64_t request_id) {
  const Handle handle = open->handle;
  const bool reader = open->closing_reader;
  auto closed = co_await close_now(mount, client, std::move(open), request_id);
  if (reader) mount.closing_readers.end(handle);
  co_return closed;
}

job::Task<Result<void>> forget_reads(Mount& mount, client::Client& client, Handle file) {
  client.cluster().reads().forget(file);
  co_await mount.closing_readers.wait(file);
  co_return Result<void>();
}

/// Answers last: if this process dies before the answer, the kernel repeats the request to the next process.
job::Task<Unit> close_and_answer(Mount& mount, fuse_req_t request, std::shared_ptr<OpenFile> open,
                                 std::uint64_t request_id) {
  client::Client& client = mount.process.client();
  client.session().next_request_id(request_id);
  const auto closed = co_await close_one(mount, client, open, request_id);
  if (!closed) SPATE_LOG("fuse", error, "close failed error={}", closed.error().message());
  mount.files.released(*open);
  fuse_reply_err(request, 0);
  call_answered(mount, request_id);
  co_return Unit();
}

/// close_one() must follow.
void begin_closing(Mount& mount, OpenFile& open) {
  const std::lock_guard lock(open.opening);
  open.closing = true;
  open.closing_reader = open.may_have_read();
  if (open.closing_reader) mount.closing_readers.begin(open.handle);
}

/// Takes an open that no program uses any more. Null: nothing is left to do; otherwise close_one() must follow.
std::shared_ptr<OpenFile> take_closed(Mount& mount, std::uint64_t number, std::uint64_t request_id) {
  auto open = mount.files.find(number);
  if (open == nullptr) return nullptr;
  release_locks(mount, number, open->handle);
  if (close_queued(mount, number, open, request_id)) return nullptr;
  begin_closing(mount, *open);  // first, so that end_reads() finds it in one of the two
  std::ignore = mount.files.remove(number);
  return open;
}

/// An error can only go to the log.
void close_taken(Mount& mount, const std::shared_ptr<OpenFile>& open, std::uint64_t request_id) {
  const auto closed = mount.process.run([&](client::Client& c) {
    c.session().next_request_id(request_id);
    return close_one(mount, c, open, request_id);
  });
  if (!closed) SPATE_LOG("fuse", error, "close failed error={}", closed.error().message());
  mount.files.released(*open);
}

/// If leases are kept, some thread drives the client's executor at least every few milliseconds.
bool close_later(Mount& mount, fuse_req_t request, const std::shared_ptr<OpenFile>& open, std::uint64_t request_id) {
  if (!mount.process.client().cluster().attributes().on()) return false;
  return mount.releases.begin(
      [&mount, request, open, request_id] { return close_and_answer(mount, request, open, request_id); });
}

void release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Mount& mount = this_mount();
  const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
  if (const auto open = take_closed(mount, info->fh, request_id)) {
    if (close_later(mount, request, open, request_id)) return;
    close_taken(mount, open, request_id);
  }
  answer([&] { return fuse_reply_err(request, 0); });
}

job::Task<Unit> close_all(Mount& mount, std::vector<std::shared_ptr<OpenFile>> left) {
  client::Client& client = mount.process.client();
  for (const std::shared_ptr<OpenFile>& open : left) {
    const std::uint64_t request_id = open->record->close_request_id;
    client.session().next_request_id(request_id);
    const auto closed = co_await close_one(mount, client, open, request_id);
    call_answered(mount, request_id);
    if (!closed) SPATE_LOG("fuse", error, "close failed error={}", closed.error().message());
  }
  co_return Unit();
}

}  // namespace

void close_file(Mount& mount, std::uint64_t number) {
  const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
  if (const auto open = take_closed(mount, number, request_id)) close_taken(mount, open, request_id);
}

void end_reads(Mount& mount, fuse_req_t request, Handle file) {
  mount.files.forget_reads(file);
  if (!mount.process.client().cluster().reads().has(file) && !mount.closing_readers.has(file)) return;
  std::ignore = run(request, [&](client::Client& c) { return forget_reads(mount, c, file); });
}

void close_left(Mount& mount) {
  const std::vector<std::shared_ptr<OpenFile>> left = mount.files.take_left();
  for (const std::shared_ptr<OpenFile>& open : left) begin_closing(mount, *open);
  std::ignore = mount.releases.begin([&mount, left] { return close_all(mount, left); });
}

void add_release_operations(fuse_lowlevel_ops& operations) { operations.release = release; }

}  // namespace spate::fuse
