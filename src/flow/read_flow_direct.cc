// SPDX-License-Identifier: Apache-2.0
// The direct path of a read: the device reads whole blocks into a buffer, and the wanted pieces are sent from there.
#include "flow/read_flow.h"

namespace spate::flow {
namespace {

/// After this many short reads in a row, before the end of the datafile, the read fails.
constexpr int kMaxShortBlocks = 4;

std::uint64_t sum(std::span<const Extent> extents) {
  std::uint64_t total = 0;
  for (const Extent& extent : extents) total += extent.size;
  return total;
}

}  // namespace

job::Task<Result<void>> ReadFlow::send_direct(DirectIo how, trove::BytestreamStat stat, job::StopToken stop) {
  watch_.begin(stop);
  begin_stream(stat);
  how_ = how;
  while (!ended_ && !cursor_->done()) {
    SPATE_CO_TRY(const std::uint64_t bytes, co_await gather());
    if (bytes == 0) break;
    SPATE_CO_TRY(PooledBuffer buffer, co_await read_message(bytes));
    post(segments_, std::move(buffer));
    stream_bytes_ += bytes;
  }
  while (!window_.empty()) {
    SPATE_CO_TRY(std::ignore, co_await wait_oldest());
  }
  spare_ = PooledBuffer();
  count_direct();
  co_return Result<void>();
}

void ReadFlow::count_direct() {
  context_.counters.moved(Lane::kPeer, Direction::kRead, peer_bytes_);
  context_.counters.moved(Lane::kDirect, Direction::kRead, direct_bytes_);
  context_.counters.moved(Lane::kBuffered, Direction::kRead, stream_bytes_ - peer_bytes_ - direct_bytes_);
}

/// Reads the message's extents into a buffer. Afterwards segments_ describes the parts of the buffer to send.
job::Task<Result<PooledBuffer>> ReadFlow::read_message(std::uint64_t bytes) {
  const bool fits = plan_.make(extents_, how_.alignment, room());
  if (!fits && !how_.may_fall_back) {
    co_return Error(Errc::kNotSupported,
                    "the pieces are too small to be read past the page cache: read with path automatic or buffered");
  }
  SPATE_CO_TRY(PooledBuffer buffer, co_await take_buffer(room()));
  if (!fits) {
    if (how_.peer) {
      SPATE_CO_TRY(std::ignore, co_await leave_peer(buffer));
    }
    context_.counters.fell_back(Lane::kDirect, Direction::kRead);
    SPATE_CO_TRY(std::ignore, co_await read_pieces(buffer.view().first(bytes)));
    segments_.assign(1, bmi::Segment::of(buffer.view().first(bytes)));
    co_return buffer;
  }
  auto read = co_await read_blocks(buffer.view());
  if (how_.peer && read.code() == Errc::kNotSupported) {
    peer_refused_ = true;
    if (!how_.may_fall_back) {
      co_return Error(Errc::kNotSupported, "the target's device cannot reach the p2p device's memory");
    }
    SPATE_CO_TRY(std::ignore, co_await leave_peer(buffer));
    read = co_await read_blocks(buffer.view());
  }
  if (!read) co_return std::move(read).error();
  (how_.peer ? peer_bytes_ : direct_bytes_) += bytes;
  plan_.segments(buffer.view(), extents_, segments_);
  co_return buffer;
}

/// Uses main memory from here on. Replaces `buffer` by a buffer in main memory.
job::Task<Result<void>> ReadFlow::leave_peer(PooledBuffer& buffer) {
  context_.counters.fell_back(Lane::kPeer, Direction::kRead);
  buffer = PooledBuffer();
  how_.peer = false;
  SPATE_CO_TRY(buffer, co_await take_buffer(room()));
  co_return Result<void>();
}

/// If the datafile becomes shorter while it is read, the rest reads as zeros. stat() then shows the new size, so that a
/// client never takes such zeros for data.
job::Task<Result<void>> ReadFlow::read_blocks(MutableByteView buffer) {
  plan_.read_request(buffer, stat_.size);
  if (plan_.ranges().empty()) {
    plan_.zero_behind(buffer, 0);
    co_return Result<void>();
  }
  const SchedulerRequest place{share_.asker.client, share_.datafile, plan_.ranges().front().offset, sum(plan_.ranges()),
                               share_.asker.priority};
  SPATE_CO_TRY(const auto ticket, co_await device_.scheduler().admit(place, watch_.token()));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kRead;
  request.id = share_.datafile;
  request.extents = plan_.ranges();
  request.memory = plan_.memory();
  request.direct = true;
  request.device_memory = how_.peer;
  for (int tries = 0; tries < kMaxShortBlocks; ++tries) {
    const trove::BytestreamCompletion done = co_await device_.storage().run(request);
    if (done.status != Errc::kOk) co_return done.status;
    if (done.stat.size < stat_.size) stat_ = done.stat;
    if (done.bytes < plan_.readable(stat_.size)) continue;
    context_.counters.registered(Direction::kRead, done.registered_bytes);
    plan_.zero_behind(buffer, done.bytes);
    co_return Result<void>();
  }
  co_return Error(Errc::kIoError, "read fewer bytes than the datafile has");
}

/// Reads through the page cache. Bytes beyond the datafile's end read as zeros.
job::Task<Result<void>> ReadFlow::read_pieces(MutableByteView buffer) {
  const SchedulerRequest place{share_.asker.client, share_.datafile, extents_.front().offset, buffer.size(),
                               share_.asker.priority};
  SPATE_CO_TRY(const auto ticket, co_await device_.scheduler().admit(place, watch_.token()));
  for (const Extent& extent : extents_) {
    const MutableByteView into = buffer.first(extent.size);
    trove::BytestreamRequest request;
    request.op = trove::BytestreamOp::kRead;
    request.id = share_.datafile;
    request.extents = {&extent, 1};
    request.memory = {&into, 1};
    const trove::BytestreamCompletion done = co_await device_.storage().run(request);
    if (done.status != Errc::kOk) co_return done.status;
    if (done.stat.size < stat_.size) stat_ = done.stat;
    std::fill(into.begin() + static_cast<std::ptrdiff_t>(done.bytes), into.end(), std::byte{0});
    buffer = buffer.subspan(extent.size);
  }
  co_return Result<void>();
}

}  // namespace spate::flow
