// SPDX-License-Identifier: Apache-2.0
#include "trove/local_bytestreams.h"

#include "trove/pieces.h"
#include "trove/sparse.h"

namespace spate::trove {
namespace {

bool takes_room(const BytestreamRequest& request) {
  return request.op == BytestreamOp::kWrite || request.op == BytestreamOp::kAllocate ||
         request.op == BytestreamOp::kCopy;
}

/// Whether the device has room for those bytes of the extents that have no place on it yet. An overwrite needs none,
/// nor does a write into reserved space.
bool fits(LocalTarget& target, const BytestreamRequest& request) {
  const Result<DatafileStore::Datafile> datafile = target.store().open(request.id, false);
  if (!datafile && datafile.code() != Errc::kNotFound) return true;  // the operation itself will report what is wrong
  std::uint64_t missing = 0;
  for (const Extent& extent : request.extents)
    missing += datafile ? missing_bytes((*datafile)->fd(), extent) : extent.size;
  const auto space = target.space();
  return missing == 0 || !space || missing <= space->free_bytes;
}

}  // namespace

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

Errc LocalBytestreams::check(const BytestreamRequest& request) const {
  const Errc status = check_request(request);
  if (status != Errc::kOk || !request.direct) return status;
  return fit_for_direct(request, target_->direct().alignment) ? Errc::kOk : Errc::kInvalidArgument;
}

bool LocalBytestreams::complete_now(const BytestreamRequest& request, BytestreamCompletion& done) {
  if (request.direct || options_.inline_limit_bytes == 0) return false;
  const bool moves_bytes = request.op == BytestreamOp::kRead || request.op == BytestreamOp::kWrite;
  if (moves_bytes && total_size(request.extents) > options_.inline_limit_bytes) return false;
  if (!target_->in_memory()) return try_execute(target_->store(), target_->abilities(), request, done);
  execute(target_->store(), request, done);
  return true;
}

bool LocalBytestreams::post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) {
  done = BytestreamCompletion{};
  done.user = user;
  done.status = check(request);
  if (done.status != Errc::kOk) return true;
  const bool may_not_fit = takes_room(request) && !has_room(total_size(request.extents));
  if (!may_not_fit && complete_now(request, done)) return true;
  auto op = std::make_unique<QueuedOp>(request, done);
  op->if_it_fits = may_not_fit;
  if (!may_not_fit) start(op);
  if (op != nullptr) run_on_threads(std::move(op));
  return false;
}

void LocalBytestreams::run_on_threads(std::unique_ptr<QueuedOp> op) {
  {
    const std::lock_guard lock(mutex_);
    ++on_threads_;
  }
  target_->workers().run([this, op = std::move(op)] {
    if (op->if_it_fits && !fits(*target_, op->request)) {
      op->done.status = Errc::kNoSpace;
    } else {
      execute(target_->store(), op->request, op->done);
    }
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
