// SPDX-License-Identifier: Apache-2.0
#include "client/file/file_gather.h"

#include <algorithm>
#include <array>

#include "datatype/measure.h"
#include "model/defect.h"

namespace spate::client {
namespace {

/// The end of the piece that begins at `offset`. With most layouts a strip ends there, too.
constexpr std::uint64_t end_of_piece(std::uint64_t offset) {
  return (offset / GatherMemory::kPieceBytes + 1) * GatherMemory::kPieceBytes;
}

}  // namespace

FileGather::FileGather(FileData& data)
    : data_(&data), all_(data.cluster().gathered()), handle_(data.handle()), turn_(data.cluster().executor(), 1) {}

std::optional<MonoTime> FileGather::since() const {
  if (piece_ == nullptr || sending_) return std::nullopt;
  return since_;
}

bool FileGather::fits(std::size_t size) const {
  return piece_ == nullptr || piece_->end() + size <= end_of_piece(piece_->offset);
}

bool FileGather::may_gather(std::uint64_t offset, std::size_t size) const {
  if (data_ == nullptr || sending_ || failed_ || size == 0 || size > kMostBytes) return false;
  if (offset != next_ || offset + size > kMaxFileBytes || !fits(size)) return false;
  const OpenCapability& capability = data_->capability();
  if (!allows(capability.rights(), Rights::kWrite) || !capability.in_current_epoch() || !capability.to_change())
    return false;
  if (piece_ != nullptr && piece_->epoch != capability.epoch().epoch) return false;
  if ((data_->session().meta().features() & wire::kFeatureGathers) == 0) return false;
  return data_->written().has_record() && all_.has_room();
}

/// If a next process would be needed to know of the open and does not, nothing is gathered.
bool FileGather::take(std::uint64_t offset, ByteView bytes) {
  if (!may_gather(offset, bytes.size())) return false;
  GatherMemory& memory = *all_.memory();
  const WallTime now = data_->session().fs_time();
  const std::uint64_t end = offset + bytes.size();
  GatherMemory::Piece like;
  like.handle = handle_;
  like.client = data_->capability().epoch().client;
  like.epoch = data_->capability().epoch().epoch;
  like.offset = offset;
  GatherMemory::Piece* const piece = piece_ != nullptr ? piece_ : memory.take(like, all_.name_of(handle_));
  if (piece == nullptr) return false;
  const bool alone = data_->cluster().attributes().gather(handle_, end, now);
  if (!alone && !planted(Defect::kGatherAfterRecall)) {
    if (piece_ == nullptr) memory.give_back(*piece);
    return false;
  }
  memory.add(*piece, bytes, now);
  if (piece_ == nullptr) since_ = data_->cluster().executor().now();
  piece_ = piece;
  next_ = end;
  ++all_.counters().writes;
  all_.begun();
  return true;
}

job::Task<Result<bool>> FileGather::gather(std::uint64_t offset, ByteView bytes) {
  SPATE_CO_TRY(std::ignore, tell_writer());
  if (take(offset, bytes)) {
    if (!fits(1)) all_.send_soon(handle_);
    co_return true;
  }
  if (piece_ == nullptr) co_return false;
  co_await send();
  SPATE_CO_TRY(std::ignore, tell_writer());
  if (take(offset, bytes)) co_return true;
  if (piece_ != nullptr) co_await send();  // others may have gathered meanwhile
  co_return false;
}

bool FileGather::rather_by_lease(std::uint64_t offset, std::size_t size) const {
  if (data_ == nullptr || size < kLeaseBytes || data_->layout().redundancy != Redundancy::kNone) return false;
  const auto what = datatype::Description::contiguous(offset, size);
  if (!what) return false;
  const auto slots = datatype::slots_touched(*what, data_->distribution());
  return std::ranges::all_of(slots, [this](std::uint32_t slot) { return data_->bypass().may_write(slot); });
}

job::Task<Result<void>> FileGather::write(std::uint64_t offset, ByteView bytes) {
  bool gathered = false;
  if (rather_by_lease(offset, bytes.size())) {
    SPATE_CO_TRY(std::ignore, tell_writer());
  } else {
    SPATE_CO_TRY(gathered, co_await gather(offset, bytes));
  }
  if (gathered) co_return Result<void>();
  auto written = co_await data_->write(offset, bytes, {});
  if (written) wrote_until(offset + bytes.size());
  co_return written;
}

Result<void> FileGather::tell_writer() {
  if (!failed_ || std::exchange(writer_told_, true)) return {};
  return *failed_;
}

job::Task<void> FileGather::take_over(GatherMemory::Piece& piece) {
  piece_ = &piece;
  since_ = data_->cluster().executor().now();
  co_await send();
}

job::Task<void> FileGather::send() {
  if (piece_ == nullptr) co_return;
  const auto turn = co_await turn_.acquire(1);
  if (!turn || piece_ == nullptr || data_ == nullptr) co_return;  // may have changed
  GatherMemory::Piece& piece = *piece_;
  sending_ = true;
  auto sent = co_await send_piece(piece);
  ++all_.counters().sent;
  if (!sent) note_failure(std::move(sent).error());
  piece_ = nullptr;
  sending_ = false;
  if (piece.later.queued == 0) all_.memory()->give_back(piece);
}

/// Once the epoch has ended in which the bytes were written, others may hold locks and leases on the file.
job::Task<Result<void>> FileGather::send_piece(GatherMemory::Piece& piece) {
  if (piece.size == 0) co_return Result<void>();
  const rpc::SessionEpoch now = data_->session().identity().session();
  if (now != rpc::SessionEpoch{piece.client, piece.epoch}) co_return Errc::kSessionFenced;
  SPATE_CO_TRY(const auto what, datatype::Description::contiguous(piece.offset, piece.size));
  const job::StopToken stop = all_.stop_token();
  const std::array<ByteView, 1> memory{all_.memory()->bytes(piece)};
  auto written = co_await data_->write_gathered(what, memory, piece.epoch, piece.written, stop);
  co_return written;
}

/// While a request carries them, they may still reach the servers.
void FileGather::lose(Error why) {
  if (piece_ == nullptr) return;
  note_failure(std::move(why));
  if (sending_) return;
  all_.memory()->give_back(*piece_);
  piece_ = nullptr;
}

void FileGather::note_failure(Error error) {
  all_.note_loss(*piece_, error);
  if (data_ != nullptr) data_->written().note_loss();
  failed_ = std::move(error);
  writer_told_ = false;
}

void FileGather::leave() {
  all_.leave(handle_);
  if (!sending_) lose(Error(Errc::kCancelled, "the file was given up"));
  data_ = nullptr;
}

}  // namespace spate::client
