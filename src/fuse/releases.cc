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
job::Task<Result<void>> close_one(Mount& mount, client::Client& client, std::shared_ptr<OpenFile> open,
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

/// If leases are kept, some thread drives the client's executor at least every few milliseconds.
bool begin_close(Mount& mount, fuse_req_t request, std::uint64_t number) {
  if (!mount.process.client().cluster().attributes().on()) return false;
  const auto open = mount.files.find(number);
  if (open == nullptr) return false;
  release_locks(mount, number, open->handle);
  const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
  if (close_queued(mount, number, open, request_id)) return fuse_reply_err(request, 0), true;
  const auto make = [&mount, request, open, request_id] { return close_and_answer(mount, request, open, request_id); };
  const bool begun = mount.releases.begin(make);
  if (begun) std::ignore = mount.files.remove(number);
  return begun;
}

void release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Mount& mount = this_mount();
  if (begin_close(mount, request, info->fh)) return;
  close_file(mount, info->fh);
  answer([&] { return fuse_reply_err(request, 0); });
}

}  // namespace

/// An error can only go to the log.
void close_file(Mount& mount, std::uint64_t number) {
  const auto open = mount.files.remove(number);
  if (open == nullptr) return;
  release_locks(mount, number, open->handle);
  const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
  if (close_queued(mount, number, open, request_id)) return;
  const auto closed = mount.process.run([&](client::Client& c) {
    c.session().next_request_id(request_id);
    return close_one(mount, c, open, request_id);
  });
  if (!closed) SPATE_LOG("fuse", error, "close failed error={}", closed.error().message());
  mount.files.released(*open);
}

job::Task<Unit> close_left(Mount& mount) {
  client::Client& client = mount.process.client();
  for (const std::shared_ptr<OpenFile>& open : mount.files.take_left()) {
    const std::uint64_t request_id = open->record->close_request_id;
    client.session().next_request_id(request_id);
    const auto closed = co_await close_one(mount, client, open, request_id);
    call_answered(mount, request_id);
    if (!closed) SPATE_LOG("fuse", error, "close failed error={}", closed.error().message());
  }
  co_return Unit();
}

void add_release_operations(fuse_lowlevel_ops& operations) { operations.release = release; }

}  // namespace spate::fuse
