// SPDX-License-Identifier: Apache-2.0
#include "trove/local_bytestreams.h"

#include "trove/pieces.h"

namespace spate::trove {

QueuedOp::QueuedOp(const BytestreamRequest& posted, const BytestreamCompletion& begun)
    : extents(posted.extents.begin(), posted.extents.end()),
      memory(posted.memory.begin(), posted.memory.end()),
      request(posted),
      done(begun) {
  request.extents = extents;
  request.memory = memory;
}

LocalBytestreams::LocalBytestreams(std::shared_ptr<LocalTarget> target, LocalBytestreamsOptions options)
    : target_(std::move(target)), options_(options) {}

LocalBytestreams::~LocalBytestreams() {
  std::unique_lock lock(mutex_);
  while (on_threads_ > 0) idle_.wait(lock);
}

/// Checks the device's space again after this process has written a part of the free space, since other processes write
/// to the device, too.
bool LocalBytestreams::has_room(std::uint64_t bytes) {
  if (bytes <= unlooked_bytes_) {
    unlooked_bytes_ -= bytes;
    return true;
  }
  const auto space = target_->space();
  if (!space) return true;  // the write itself will report what is wrong
  if (space->free_bytes < bytes) return false;
  unlooked_bytes_ = (space->free_bytes - bytes) / 8;
  return true;
}

bool LocalBytestreams::complete_now(const BytestreamRequest& request, BytestreamCompletion& done) {
  done.status = check_request(request);
  if (done.status != Errc::kOk) return true;
  const bool takes_room =
      request.op == BytestreamOp::kWrite || request.op == BytestreamOp::kAllocate || request.op == BytestreamOp::kCopy;
  if (takes_room && !has_room(total_size(request.extents))) {
    done.status = Errc::kNoSpace;
    return true;
  }
  if (request.direct) {
    if (!fit_for_direct(request, target_->direct().alignment)) done.status = Errc::kInvalidArgument;
    return done.status != Errc::kOk;
  }
  if (options_.inline_limit_bytes == 0) return false;
  const bool moves_bytes = request.op == BytestreamOp::kRead || request.op == BytestreamOp::kWrite;
  if (moves_bytes && total_size(request.extents) > options_.inline_limit_bytes) return false;
  if (!target_->in_memory()) return try_execute(target_->store(), target_->abilities(), request, done);
  execute(target_->store(), request, done);
  return true;
}

bool LocalBytestreams::post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) {
  done = BytestreamCompletion{};
  done.user = user;
  if (complete_now(request, done)) return true;
  auto op = std::make_unique<QueuedOp>(request, done);
  start(op);
  if (op != nullptr) run_on_threads(std::move(op));
  return false;
}

void LocalBytestreams::run_on_threads(std::unique_ptr<QueuedOp> op) {
  {
    const std::lock_guard lock(mutex_);
    ++on_threads_;
  }
  target_->workers().run([this, op = std::move(op)] {
    execute(target_->store(), op->request, op->done);
    queue_.push(std::move(op->done));
    ended_on_thread();
  });
}

bool LocalBytestreams::threads_busy() {
  const std::lock_guard lock(mutex_);
  return on_threads_ > 0;
}

void LocalBytestreams::ended_on_thread() {
  // The lock is held while the destructor's thread is notified, because the object may be gone as soon as the lock is
  // released.
  const std::lock_guard lock(mutex_);
  if (--on_threads_ == 0) idle_.notify_all();
}

Result<std::vector<DatafileId>> LocalBytestreams::list(DatafileId after, std::size_t max) {
  return target_->store().list(after, max);
}

Result<SpaceInfo> LocalBytestreams::space() { return target_->space(); }

}  // namespace spate::trove
