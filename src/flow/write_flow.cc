// SPDX-License-Identifier: Apache-2.0
#include "flow/write_flow.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "flow/extents.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::flow {

WriteFlow::WriteFlow(FlowContext& context, Device& device, const DatafileStream& share, const Route& route,
                     WallTime fs_time)
    : context_(context),
      device_(device),
      share_(share),
      route_(route),
      writer_(device, share, fs_time),
      watch_(context.network.executor(), context.options.stall_timeout),
      window_(context.options.in_flight),
      ahead_(share.what, share.distribution, share.datafile.slot),
      one_carried_(context.network.executor()) {}

job::Task<Result<void>> WriteFlow::run(job::StopToken stop) {
  watch_.begin(stop);
  auto moved = co_await move_all();
  if (!moved) co_await cancel_all();
  spare_ = PooledBuffer();
  watch_.end();
  if (!aligner_) context_.counters.moved(Lane::kBuffered, Direction::kWrite, stream_bytes_);
  co_return moved;
}

job::Task<Result<void>> WriteFlow::run_direct(Extent range, DirectIo how, job::StopToken stop) {
  aligner_.emplace(range.offset, how.alignment);
  how_ = how;
  ahead_at_ = range.offset;
  auto moved = co_await run(stop);
  edges_ = aligner_->finish();
  count_direct();
  if (!moved) edges_.clear();
  co_return moved;
}

void WriteFlow::count_direct() {
  std::uint64_t on_edges = 0;
  for (const Edge& edge : edges_) on_edges += edge.data.size();
  // A message that failed has added its edges, but its bytes were not counted.
  const std::uint64_t in_blocks = stream_bytes_ - std::min(stream_bytes_, on_edges);
  const std::uint64_t by_peer = std::min(peer_bytes_, in_blocks);
  context_.counters.moved(Lane::kPeer, Direction::kWrite, by_peer);
  context_.counters.moved(Lane::kDirect, Direction::kWrite, in_blocks - by_peer);
  context_.counters.registered(Direction::kWrite, writer_.registered_bytes());
}

job::Task<Result<void>> WriteFlow::write_edges(job::StopToken stop) {
  for (const Edge& edge : edges_) {
    SPATE_CO_TRY(std::ignore, co_await writer_.write_at(edge.offset, edge.data, WriteMode::kBuffered, stop));
    context_.counters.moved(Lane::kBuffered, Direction::kWrite, edge.data.size());
  }
  edges_.clear();
  co_return Result<void>();
}

job::Task<Result<void>> WriteFlow::move_all() {
  if (share_.carrier != nullptr) {
    job::Gate gate(device_.executor());
    Result<void> moved = co_await carry_all(gate);
    co_await gate.close();
    if (moved) moved = carried_;
    drop_carried();
    co_return moved;
  }
  for (;;) {
    SPATE_CO_TRY(std::ignore, co_await post_receives());
    if (window_.empty()) co_return Result<void>();
    SPATE_CO_TRY(std::ignore, co_await write_oldest());
  }
}

/// Posts receives for the next messages while there are buffers.
job::Task<Result<void>> WriteFlow::post_receives() {
  while (!window_.full() && !ahead_.done()) {
    if (!spare_.is_from(&pool())) {
      spare_ = PooledBuffer();
      SPATE_CO_TRY(const bool got, co_await take_spare());
      if (!got) break;
    }
    const datatype::SlotCursor at = ahead_;
    std::uint64_t size = 0;
    while (size < route_.unit_bytes && !ahead_.done()) {
      const std::uint64_t more = ahead_.next_extents({route_.unit_bytes - size, kMaxPieces}, scratch_);
      if (more == 0) co_await device_.executor().yield();
      size += more;
    }
    if (size > 0) post(size, at);
  }
  co_return Result<void>();
}

/// False: no buffer is free now, but messages in flight will return theirs.
job::Task<Result<bool>> WriteFlow::take_spare() {
  auto lease = pool().try_acquire(share_.asker.client, buffer_bytes());
  if (!lease && !window_.empty()) co_return false;
  if (lease) {
    spare_ = *std::move(lease);
  } else {
    SPATE_CO_TRY(spare_, co_await pool().acquire(share_.asker.client, buffer_bytes(), watch_.token()));
  }
  co_return true;
}

void WriteFlow::post(std::uint64_t size, const datatype::SlotCursor& at) {
  Incoming& in = window_.push();
  in.buffer = std::move(spare_);
  spare_ = PooledBuffer();
  in.size = size;
  in.at = at;
  in.lead = aligner_ ? aligner_->lead(ahead_at_) : 0;
  ahead_at_ += size;
  const std::array<bmi::Segment, 2> room{bmi::Segment::of(MutableByteView(in.code)),
                                         bmi::Segment::of(in.buffer.view().subspan(in.lead, size))};
  bmi::Message message;
  message.peer = route_.peer;
  message.tag = route_.tag;
  message.message_class = bmi::MessageClass::kBulk;
  message.segments = route_.seals != nullptr ? bmi::SegmentList(room) : bmi::SegmentList(&room[1], 1);
  in.op.emplace(context_.network).post_recv(message);
}

/// Checks that the message has the announced size and that its code is genuine.
Result<void> WriteFlow::check(const Incoming& in, std::uint64_t received) {
  if (received != in.size + (route_.seals != nullptr ? wire::BulkSeals::kSize : 0))
    return Error(Errc::kProtocol, "a bulk message is shorter than the request says");
  if (route_.seals == nullptr) return {};
  const ByteView data = ByteView(in.buffer.view()).subspan(in.lead, in.size);
  if (route_.seals->genuine(route_.tag.value, checked_messages_++, {&data, 1}, in.code)) return {};
  SPATE_LOG("flow", error, "a write is refused: {} handle={}", wire::altered_bulk_message(), share_.datafile.handle);
  return wire::altered_bulk_message();
}

job::Task<Result<void>> WriteFlow::receive(Incoming& in) {
  SPATE_CO_TRY(const auto received, co_await in.op->wait(watch_.token()));
  watch_.progress();
  co_return check(in, received);
}

/// Gives each message to the carrier when it has arrived, while the earlier ones are still being written. The carrier
/// orders writes that overlap.
job::Task<Result<void>> WriteFlow::carry_all(job::Gate& gate) {
  for (;;) {
    drop_carried();
    if (!carried_) co_return carried_;
    SPATE_CO_TRY(std::ignore, co_await post_receives());
    if (window_.empty()) co_return Result<void>();
    if (given_ < window_.size()) {
      Incoming& in = window_.at(given_);
      SPATE_CO_TRY(std::ignore, co_await receive(in));
      ++given_;
      job::spawn(gate, carry(in));
    } else if (carried_ && !window_.front().carried) {
      one_carried_.reset();
      SPATE_CO_TRY(std::ignore, co_await one_carried_.wait(watch_.token()));
    }
  }
}

job::Task<void> WriteFlow::carry(Incoming& in) {
  const auto stored = co_await store(in);
  watch_.progress();
  if (stored) stream_bytes_ += in.size;
  if (!stored && carried_) carried_ = stored;
  in.carried = true;
  one_carried_.set();
}

/// Frees the places and buffers of messages that the carrier has written, the oldest ones.
void WriteFlow::drop_carried() {
  for (; given_ > 0 && window_.front().carried; --given_) {
    Incoming& in = window_.front();
    in.carried = false;
    in.op.reset();
    spare_ = std::move(in.buffer);
    in.buffer = PooledBuffer();
    window_.pop();
  }
}

job::Task<Result<void>> WriteFlow::write_oldest() {
  Incoming& in = window_.front();
  SPATE_CO_TRY(std::ignore, co_await receive(in));
  SPATE_CO_TRY(std::ignore, co_await store(in));
  stream_bytes_ += in.size;
  in.op.reset();
  spare_ = std::move(in.buffer);
  in.buffer = PooledBuffer();
  window_.pop();
  co_return Result<void>();
}

job::Task<Result<void>> WriteFlow::store(Incoming& in) {
  Result<void> stored;
  if (aligner_) {
    const BlockAligner::Blocks blocks = aligner_->take(in.buffer.view(), in.size);
    const bool in_peer = context_.peer_pool != nullptr && in.buffer.is_from(context_.peer_pool);
    if (!blocks.data.empty()) stored = co_await store_blocks(blocks, in_peer);
  } else {
    const ByteView data = ByteView(in.buffer.view()).first(in.size);
    stored = co_await writer_.write(*in.at, data, watch_.token());
  }
  co_return stored;
}

job::Task<Result<void>> WriteFlow::store_blocks(const BlockAligner::Blocks& blocks, bool in_peer) {
  Result<void> stored;
  if (!in_peer) {
    stored = co_await writer_.write_at(blocks.offset, blocks.data, WriteMode::kDirect, watch_.token());
    co_return stored;
  }
  if (!peer_refused_) {
    stored = co_await writer_.write_at(blocks.offset, blocks.data, WriteMode::kDirectFromDevice, watch_.token());
    if (stored) peer_bytes_ += blocks.data.size();
    if (stored.code() != Errc::kNotSupported) co_return stored;
    peer_refused_ = true;
    if (!how_.may_fall_back) {
      co_return Error(Errc::kNotSupported, "the target's device cannot reach the p2p device's memory");
    }
    context_.counters.fell_back(Lane::kPeer, Direction::kWrite);
    how_.peer = false;
  }
  stored = co_await write_by_main_memory(blocks);
  co_return stored;
}

/// Writes data that has arrived in the other device's memory. Waiting for a buffer while holding one is safe here: the
/// two buffers belong to two pools, and no flow waits for them in the opposite order.
job::Task<Result<void>> WriteFlow::write_by_main_memory(const BlockAligner::Blocks& blocks) {
  SPATE_CO_TRY(const PooledBuffer buffer,
               co_await context_.pool.acquire(share_.asker.client, main_buffer_bytes(), watch_.token()));
  std::memcpy(buffer.view().data(), blocks.data.data(), blocks.data.size());
  context_.counters.copied_again(Lane::kDirect, Direction::kWrite, blocks.data.size());
  const ByteView data = ByteView(buffer.view()).first(blocks.data.size());
  auto stored = co_await writer_.write_at(blocks.offset, data, WriteMode::kDirect, watch_.token());
  co_return stored;
}

job::Task<void> WriteFlow::cancel_all() {
  window_.for_each([](Incoming& in) { in.op->cancel(); });
  while (!window_.empty()) {
    Incoming& in = window_.front();
    std::ignore = co_await in.op->wait();
    in.op.reset();
    in.buffer = PooledBuffer();
    window_.pop();
  }
}

}  // namespace spate::flow
