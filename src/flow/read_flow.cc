// SPDX-License-Identifier: Apache-2.0
#include "flow/read_flow.h"

#include <algorithm>

#include "datatype/measure.h"
#include "flow/extents.h"

namespace spate::flow {
namespace {

/// The most file ranges in one message. Only strided requests of small pieces that name the cached path can reach this
/// limit, because a list has fewer pieces.
constexpr std::size_t kMaxSegments = 32768;

}  // namespace

ReadFlow::ReadFlow(FlowContext& context, Device& device, const DatafileStream& share, const Route& route)
    : context_(context),
      device_(device),
      share_(share),
      route_(route),
      watch_(context.network.executor(), context.options.stall_timeout),
      window_(context.options.in_flight) {}

void ReadFlow::post(bmi::SegmentList segments, PooledBuffer buffer) {
  Outgoing& out = window_.push();
  bmi::Message message;
  message.peer = route_.peer;
  message.tag = route_.tag;
  message.message_class = bmi::MessageClass::kBulk;
  message.segments = route_.seals != nullptr ? seal(segments, out) : segments;
  message.receiver_ready = true;
  out.buffer = std::move(buffer);
  out.op.emplace(context_.network).post_send(message);
}

/// Puts the message's code in front of it. Precondition: all segments are memory.
bmi::SegmentList ReadFlow::seal(bmi::SegmentList segments, Outgoing& out) {
  std::vector<ByteView> data;
  sealed_.assign(1, bmi::Segment::of(MutableByteView(out.code)));
  for (const bmi::Segment& segment : segments) {
    SPATE_CHECK(segment.memory != nullptr);
    data.emplace_back(segment.memory, segment.size);
    sealed_.push_back(segment);
  }
  out.code = route_.seals->seal(route_.tag.value, sealed_messages_++, data);
  return sealed_;
}

job::Task<Result<void>> ReadFlow::wait_oldest() {
  Outgoing& out = window_.front();
  const auto sent = co_await out.op->wait(watch_.token());
  out.op.reset();
  spare_ = std::move(out.buffer);
  out.buffer = PooledBuffer();
  window_.pop();
  watch_.progress();
  if (!sent) {
    note_failure(sent.code());
    co_return sent.error();
  }
  co_return Result<void>();
}

/// A failure of the network has other codes.
void ReadFlow::note_failure(Errc code) { file_unreadable_ |= file_ != nullptr && code == Errc::kIoError; }

/// Removes messages that have left from the window. Does not wait.
Result<void> ReadFlow::retire_done() {
  while (!window_.empty() && window_.front().op->done()) {
    Outgoing& out = window_.front();
    const auto sent = out.op->result();
    out.op.reset();
    spare_ = std::move(out.buffer);
    out.buffer = PooledBuffer();
    window_.pop();
    watch_.progress();
    if (!sent) return sent.error();
  }
  return {};
}

/// Prefers the buffer from which a message left last, because the processor's caches still have it.
job::Task<Result<PooledBuffer>> ReadFlow::take_buffer(std::uint64_t size) {
  for (;;) {
    SPATE_CO_TRY(std::ignore, retire_done());
    if (!window_.full()) {
      if (spare_.is_from(&pool())) co_return std::move(spare_);
      spare_ = PooledBuffer();
      auto lease = pool().try_acquire(share_.asker.client, size);
      if (lease) co_return *std::move(lease);
      if (window_.empty()) {
        auto waited = co_await pool().acquire(share_.asker.client, size, watch_.token());
        co_return waited;
      }
    }
    SPATE_CO_TRY(std::ignore, co_await wait_oldest());
  }
}

job::Task<Result<void>> ReadFlow::send_buffered(job::StopToken stop) {
  watch_.begin(stop);
  StorageReader reader(device_, share_);
  while (!reader.ended()) {
    SPATE_CO_TRY(PooledBuffer buffer, co_await take_buffer(route_.unit_bytes));
    SPATE_CO_TRY(const std::uint64_t bytes, co_await reader.fill(buffer.view(), watch_.token()));
    if (bytes == 0) break;
    const bmi::Segment segment = bmi::Segment::of(buffer.view().first(bytes));
    post({&segment, 1}, std::move(buffer));
    stream_bytes_ += bytes;
  }
  SPATE_CO_TRY(stat_, co_await reader.stat(watch_.token()));
  while (!window_.empty()) {
    SPATE_CO_TRY(std::ignore, co_await wait_oldest());
  }
  spare_ = PooledBuffer();
  context_.counters.moved(Lane::kBuffered, Direction::kRead, stream_bytes_);
  co_return Result<void>();
}

void ReadFlow::begin_stream(const trove::BytestreamStat& stat) {
  stat_ = stat;
  cursor_.emplace(share_.what, share_.distribution, share_.datafile.slot);
  if (share_.what.ordered()) return;
  left_ = datatype::present_bytes(share_.what, share_.distribution, share_.datafile.slot, stat_.size);
  ended_ = left_ == 0;
}

job::Task<Result<void>> ReadFlow::send_cached(std::shared_ptr<const trove::OpenDatafile> file,
                                              trove::BytestreamStat stat, job::StopToken stop) {
  watch_.begin(stop);
  file_ = std::move(file);
  begin_stream(stat);
  while (!ended_ && !cursor_->done()) {
    if (window_.full()) {
      SPATE_CO_TRY(std::ignore, co_await wait_oldest());
    }
    SPATE_CO_TRY(const std::uint64_t bytes, co_await gather());
    if (bytes == 0) break;
    SPATE_CO_TRY(std::ignore, co_await make_resident());
    segments_.clear();
    for (const Extent& extent : extents_) {
      segments_.push_back(bmi::Segment::of_file(file_->descriptor(), extent.offset, extent.size));
    }
    post(segments_, {});
    stream_bytes_ += bytes;
  }
  context_.counters.moved(Lane::kCached, Direction::kRead, stream_bytes_);
  co_return Result<void>();
}

/// Collects the extents of the next message. Yields the message's size in bytes.
job::Task<Result<std::uint64_t>> ReadFlow::gather() {
  std::uint64_t bytes = 0;
  extents_.clear();
  while (bytes < route_.unit_bytes && !ended_ && !cursor_->done()) {
    const std::uint64_t found = cursor_->next_extents({route_.unit_bytes - bytes, kMaxPieces}, batch_);
    if (found == 0) {
      co_await device_.executor().yield();
      continue;
    }
    if (extents_.size() + batch_.size() > kMaxSegments) {
      co_return Error(Errc::kNotSupported,
                      "the pieces are too small for the cached path: read with path automatic or buffered");
    }
    ended_ = cut_at_end();
    for (const Extent& extent : batch_) bytes += extent.size;
    if (extents_.empty()) {
      extents_.swap(batch_);
    } else {
      extents_.insert(extents_.end(), batch_.begin(), batch_.end());
    }
  }
  co_return bytes;
}

/// Cuts the batch where the stream ends; true if it does. Sends ranges beyond the datafile's end as zeros.
bool ReadFlow::cut_at_end() {
  std::uint64_t bytes = 0;
  for (const Extent& extent : batch_) bytes += extent.size;
  const std::uint64_t kept = share_.what.ordered() ? bytes_before_end(batch_, stat_.size) : std::min(left_, bytes);
  keep_first(batch_, kept);
  if (share_.what.ordered()) return kept < bytes;
  left_ -= kept;
  return left_ == 0;
}

/// Brings the extents into the page cache first, so that the network's loop never waits for a device while it sends.
job::Task<Result<void>> ReadFlow::make_resident() {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents_) bytes += extent.size;
  const SchedulerRequest place{share_.asker.client, share_.datafile, extents_.front().offset, bytes,
                               share_.asker.priority};
  SPATE_CO_TRY(const auto ticket, co_await device_.scheduler().admit(place, watch_.token()));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kMakeResident;
  request.id = share_.datafile;
  request.extents = extents_;
  const trove::BytestreamCompletion done = co_await device_.storage().run(request);
  if (done.status != Errc::kOk) co_return done.status;
  co_return Result<void>();
}

job::Task<void> ReadFlow::drain() {
  while (!window_.empty()) std::ignore = co_await wait_oldest();
  spare_ = PooledBuffer();
  watch_.end();
}

}  // namespace spate::flow
