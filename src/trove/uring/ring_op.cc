// SPDX-License-Identifier: Apache-2.0
#include "trove/uring/ring_op.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "trove/direct.h"

namespace spate::trove {
namespace {

constexpr std::size_t kPiecesPerStep = 256;
/// Most steps of one operation at the same time: enough to keep a device busy with a list of small extents. Guess.
constexpr std::size_t kWindow = 32;
/// How often a step is tried again if the kernel returns it without having begun it.
constexpr unsigned kMaxRetries = 8;

std::uint64_t limit_of(const BytestreamRequest& request, const LocalDatafile& datafile) {
  if (request.op == BytestreamOp::kWrite) return total_size(request.extents);
  BytestreamStat stat;
  // If stat fails here, the kernel will report the reason at the first step.
  if (datafile.stat(stat) != Errc::kOk) return total_size(request.extents);
  return request.direct ? direct_read_limit(request.extents, stat.size) : stream_before_end(request.extents, stat.size);
}

}  // namespace

void RingStep::advance(std::uint64_t bytes) {
  offset += bytes;
  stream_at += bytes;
  left -= bytes;
  while (bytes > 0) {
    iovec& piece = pieces[first];
    const std::uint64_t part = std::min<std::uint64_t>(bytes, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + part;
    piece.iov_len -= part;
    if (piece.iov_len == 0) ++first;
    bytes -= part;
  }
}

RingOp::RingOp(std::unique_ptr<QueuedOp> op, DatafileStore::Datafile datafile)
    : queued_(std::move(op)),
      datafile_(std::move(datafile)),
      fd_(queued_->request.direct ? datafile_->direct_fd() : datafile_->fd()),
      limit_(limit_of(queued_->request, *datafile_)),
      cursor_(queued_->request.extents, queued_->request.memory, limit_),
      stream_at_(std::min(queued_->done.bytes, limit_)),
      window_(ascending(queued_->request.extents) ? kWindow : 1),
      gap_at_(limit_) {
  cursor_.advance(stream_at_);
  if (fd_ < 0) stop_at(0, errc_from_errno(-fd_));
  if (is_write()) {
    change_.emplace(*datafile_, queued_->request.now, ChangeScope::MustNotWait());
  } else if (queued_->done.bytes == 0) {
    queued_->done.stat.change_counter = datafile_->change_counter();  // before any byte is read, see execute.cc
  }
}

RingStep& RingOp::free_step() {
  if (free_steps_.empty()) {
    steps_.push_back(std::make_unique<RingStep>());
    steps_.back()->op = this;
    free_steps_.push_back(steps_.back().get());
  }
  RingStep* const step = free_steps_.back();
  free_steps_.pop_back();
  return *step;
}

/// A step of a direct operation ends where the local file's extent ends: each extent is a request of its own to the
/// device, and all of them are in flight together (OPIOM sec. 3.2.1.2).
Step RingOp::next_of(std::span<iovec> pieces) {
  Step step = cursor_.next(pieces);
  if (!queued_->request.direct) return step;
  const std::uint64_t most = extents_.left_in(fd_, step.offset, step.bytes);
  if (most >= step.bytes) return step;
  step.bytes = 0;
  for (step.pieces = 0; step.bytes < most; ++step.pieces) {
    iovec& piece = pieces[step.pieces];
    piece.iov_len = std::min<std::uint64_t>(piece.iov_len, most - step.bytes);
    step.bytes += piece.iov_len;
  }
  return step;
}

RingStep* RingOp::next_step() {
  if (stopped_ || in_flight_ == window_ || cursor_.left() == 0) return nullptr;
  std::array<iovec, kPiecesPerStep> pieces;
  const Step next = next_of(pieces);
  RingStep& step = free_step();
  step.pieces.assign(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(next.pieces));
  step.first = 0;
  step.offset = next.offset;
  step.left = next.bytes;
  step.stream_at = stream_at_;
  step.retries = 0;
  cursor_.advance(next.bytes);
  stream_at_ += next.bytes;
  ++in_flight_;
  return &step;
}

void RingOp::stop_at(std::uint64_t position, Errc status) {
  stopped_ = true;
  if (position >= gap_at_ && status_ != Errc::kOk) return;
  gap_at_ = std::min(gap_at_, position);
  if (status != Errc::kOk) status_ = status;
}

bool RingOp::take_result(RingStep& step, int result) {
  const bool again = result == -EINTR || result == -EAGAIN;
  if (again && ++step.retries <= kMaxRetries) return true;
  if (result > 0) {
    const std::uint64_t moved = std::min<std::uint64_t>(static_cast<std::uint64_t>(result), step.left);
    if (step.registered) registered_bytes_ += moved;
    step.advance(moved);
    step.retries = 0;
    // A direct read comes short only at the block with the datafile's end. No block begins after it, so there is
    // nothing more to read.
    if (step.left > 0 && (is_write() || !queued_->request.direct)) return true;
    if (step.left > 0) stop_at(step.stream_at, Errc::kOk);
  } else if (result < 0) {
    stop_at(step.stream_at, direct_errc(queued_->request, -result));
  } else {
    stop_at(step.stream_at, is_write() ? Errc::kIoError : Errc::kOk);
  }
  --in_flight_;
  free_steps_.push_back(&step);
  return false;
}

BytestreamCompletion RingOp::finish(DatafileStore& store) {
  BytestreamCompletion& done = queued_->done;
  done.status = status_;
  done.bytes = gap_at_;
  done.registered_bytes = std::min(registered_bytes_, gap_at_);
  change_.reset();
  if (is_write()) {
    finish_change(store, *datafile_, done);
  } else {
    finish_read(*datafile_, done);
  }
  return std::move(done);
}

}  // namespace spate::trove
