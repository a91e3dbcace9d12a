// SPDX-License-Identifier: Apache-2.0
// WriteFlow: one slot's stream from the client to its datafile, in bulk messages that are received as there is room.
#pragma once

#include <optional>

#include "flow/block_carry.h"
#include "flow/peer_memory.h"
#include "flow/stall_watch.h"
#include "flow/storage_writer.h"
#include "flow/window.h"

namespace spate::flow {

/// Life cycle: construct -> run(), awaited -> destroyed. A receive is posted only with a buffer in hand (pull), at most
/// FlowOptions::in_flight at once; while one message is written, the next ones arrive. Pinned; one executor.
class WriteFlow {
 public:
  WriteFlow(FlowContext& context, Device& device, const Share& share, const Route& route, WallTime fs_time);
  WriteFlow(const WriteFlow&) = delete;
  WriteFlow& operator=(const WriteFlow&) = delete;

  /// Ends when all of the stream is written, or with the first failure once no receive is under way any more: kProtocol
  /// when a message has not the size that the request says. After a failure part of the stream may have been written.
  job::Task<Result<void>> run(job::StopToken stop);
  /// The same for a stream that is one range of the datafile, `run`, written in whole blocks past the page cache. Its
  /// ends, where it fills no block, are kept for write_edges(). What lies in the memory of a device that the target's
  /// one cannot reach (how.peer) is copied to main memory and goes from there, counted, or it is kNotSupported.
  job::Task<Result<void>> run_direct(Extent run, PastCache how, job::StopToken stop);
  /// Writes these through the page cache: not while anybody writes near them past it.
  job::Task<Result<void>> write_edges(job::StopToken stop);
  bool has_edges() const { return !edges_.empty(); }
  std::uint64_t stream_bytes() const { return stream_bytes_; }
  const StorageWriter& writer() const { return writer_; }
  /// As ReadFlow's.
  bool peer_refused() const { return peer_refused_; }

 private:
  struct Incoming {
    std::optional<job::NetworkOp> op;
    std::optional<datatype::SlotCursor> at;  // where its bytes go
    BufferPool::Lease buffer;
    std::uint64_t size = 0;
    std::uint64_t lead = 0;  // bytes of the buffer before it
  };

  job::Task<Result<void>> move_all();
  job::Task<Result<void>> post_receives();
  job::Task<Result<void>> write_oldest();
  job::Task<Result<void>> store(Incoming& in);
  job::Task<Result<void>> store_blocks(const BlockCarry::Blocks& blocks, bool in_peer);
  job::Task<Result<void>> write_by_main_memory(const BlockCarry::Blocks& blocks);
  void count_direct();
  BufferPool& pool() const {
    if (how_.peer) return *context_.peer_pool;
    return registered() ? *context_.direct_pool : context_.pool;
  }
  /// Past the page cache, by buffers that the target knows.
  bool registered() const { return carry_ && context_.direct_pool != nullptr && route_.unit_bytes <= kPeerUnitBytes; }
  std::uint64_t main_buffer_bytes() const { return route_.unit_bytes + (carry_ ? kBlockSlackBytes : 0); }
  std::uint64_t buffer_bytes() const { return how_.peer || registered() ? kPeerBufferBytes : main_buffer_bytes(); }
  job::Task<Result<bool>> take_spare();
  job::Task<void> cancel_all();
  void post(std::uint64_t size, const datatype::SlotCursor& at);

  FlowContext& context_;
  Device& device_;
  const Share share_;
  const Route route_;
  StorageWriter writer_;
  StallWatch watch_;
  Window<Incoming> window_;
  datatype::SlotCursor ahead_;  // behind the last message that a receive was posted for
  std::vector<Extent> scratch_;
  BufferPool::Lease spare_;
  std::uint64_t stream_bytes_ = 0;
  std::optional<BlockCarry> carry_;  // run_direct only
  std::uint64_t ahead_at_ = 0;       // then: where in the datafile `ahead_` is
  std::vector<Edge> edges_;
  PastCache how_;
  std::uint64_t peer_bytes_ = 0;  // written from the other device's memory
  bool peer_refused_ = false;
};

}  // namespace spate::flow
