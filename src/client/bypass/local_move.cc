// SPDX-License-Identifier: Apache-2.0
#include "client/bypass/local_move.h"

#include <algorithm>
#include <cerrno>

#include "datatype/slot_cursor.h"

namespace spate::client {
namespace {

constexpr std::size_t kPiecesPerCall = 512;
/// The calling thread copies at most this much. More would keep it from its other work for too long. Guess.
constexpr std::uint64_t kMostNow = 4U << 20U;

}  // namespace

LocalMove::LocalMove(const SlotWork& work) : is_write_(work.is_write) {
  datatype::SlotCursor cursor(work.what, work.distribution, work.slot);
  std::vector<datatype::SlotPiece> batch;
  std::vector<MutableByteView> views;
  std::uint64_t end = 0;
  while (!cursor.done()) {
    cursor.next_batch({}, batch);
    for (const datatype::SlotPiece& piece : batch) {
      if (runs_.empty() || piece.physical != end) runs_.push_back({piece.physical, pieces_.size(), 0});
      views.clear();
      work.memory.append(piece.stream, piece.size, views);
      for (const MutableByteView view : views) pieces_.push_back({view.data(), view.size()});
      runs_.back().count = pieces_.size() - runs_.back().first;
      end = piece.physical + piece.size;
    }
  }
}

bool LocalMove::try_now(LocalIo& io) {
  std::uint64_t total = 0;
  for (const iovec& piece : pieces_) total += piece.iov_len;
  if (total > kMostNow) return false;
  return go_on(io, false);
}

/// Continues the move. False: the next call would have had to wait.
bool LocalMove::go_on(LocalIo& io, bool wait) {
  while (at_ < runs_.size()) {
    if (!step(io, wait)) return false;
  }
  return true;
}

bool LocalMove::step(LocalIo& io, bool wait) {
  Run& run = runs_[at_];
  if (run.count == 0) {
    ++at_;
    return true;
  }
  const int count = static_cast<int>(std::min(run.count, kPiecesPerCall));
  const ssize_t n = io.move_pieces({pieces_.data() + run.first, count, run.offset}, is_write_, wait);
  if (n == -EINTR) return true;
  if (n == -EAGAIN && !wait) return false;
  if (n <= 0) {
    if (n < 0) status_ = errc_from_errno(static_cast<int>(-n));
    if (n == 0 && is_write_) status_ = Errc::kIoError;
    at_ = runs_.size();
    return true;
  }
  bytes_ += static_cast<std::uint64_t>(n);
  run.offset += static_cast<std::uint64_t>(n);
  for (auto left = static_cast<std::size_t>(n); left > 0;) {
    iovec& piece = pieces_[run.first];
    const std::size_t part = std::min(left, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + part;
    piece.iov_len -= part;
    left -= part;
    if (piece.iov_len > 0) continue;
    ++run.first;
    --run.count;
  }
  return true;
}

}  // namespace spate::client
