// SPDX-License-Identifier: Apache-2.0
// WriteFlow: one slot's stream from the client to its datafile, in bulk messages. It receives each message when it has
// a buffer.
#pragma once

#include <optional>

#include "flow/block_aligner.h"
#include "flow/peer_memory.h"
#include "flow/stall_watch.h"
#include "flow/storage_writer.h"
#include "flow/window.h"
#include "job/event.h"
#include "job/gate.h"

namespace spate::flow {

/// Life cycle: construct -> run() or run_direct(), awaited -> write_edges(), awaited, if has_edges() -> destroyed. It
/// posts a receive only when it has a buffer (pull), at most FlowOptions::in_flight at a time. While it writes one
/// message, the next ones arrive. It writes them one after the other, or, with a carrier, each as soon as it has
/// arrived. Not movable. Not thread-safe: one executor.
class WriteFlow {
 public:
  WriteFlow(FlowContext& context, Device& device, const DatafileStream& share, const Route& route, WallTime fs_time);
  WriteFlow(const WriteFlow&) = delete;
  WriteFlow& operator=(const WriteFlow&) = delete;

  /// Ends when the whole stream is written; after a failure, when no receive is in flight. kProtocol: a message does
  /// not have the size that the request says. After a failure a part of the stream may have been written.
  job::Task<Result<void>> run(job::StopToken stop);
  /// As run(), for a stream that is one range of the datafile, `run`. It writes whole blocks past the page cache and
  /// keeps the ends that fill no block for write_edges(). If the target's device cannot reach the other device's memory
  /// (how.peer), data is copied to main memory first and counted, or it fails with kNotSupported.
  job::Task<Result<void>> run_direct(Extent run, DirectIo how, job::StopToken stop);
  /// Writes the ends through the page cache. Nobody may write near them past the page cache during this call.
  job::Task<Result<void>> write_edges(job::StopToken stop);
  bool has_edges() const { return !edges_.empty(); }
  std::uint64_t stream_bytes() const { return stream_bytes_; }
  const StorageWriter& writer() const { return writer_; }
  /// As ReadFlow::peer_refused().
  bool peer_refused() const { return peer_refused_; }

 private:
  struct Incoming {
    std::optional<job::NetworkOp> op;
    std::optional<datatype::SlotCursor> at;  // where its bytes go
    PooledBuffer buffer;
    std::uint64_t size = 0;
    std::uint64_t lead = 0;  // bytes of the buffer before the message
    wire::BulkSeals::Code code{};
    bool carried = false;  // the carrier has ended
  };

  job::Task<Result<void>> move_all();
  job::Task<Result<void>> post_receives();
  job::Task<Result<void>> receive(Incoming& in);
  job::Task<Result<void>> write_oldest();
  job::Task<Result<void>> carry_all(job::Gate& gate);
  job::Task<void> carry(Incoming& in);
  void drop_carried();
  Result<void> check(const Incoming& in, std::uint64_t received);
  job::Task<Result<void>> store(Incoming& in);
  job::Task<Result<void>> store_blocks(const BlockAligner::Blocks& blocks, bool in_peer);
  job::Task<Result<void>> write_by_main_memory(const BlockAligner::Blocks& blocks);
  void count_direct();
  BufferPool& pool() const {
    if (how_.peer) return *context_.peer_pool;
    return registered() ? *context_.direct_pool : context_.pool;
  }
  /// Whether the stream goes past the page cache with registered buffers.
  bool registered() const { return aligner_ && context_.direct_pool != nullptr && route_.unit_bytes <= kPeerUnitBytes; }
  std::uint64_t main_buffer_bytes() const { return route_.unit_bytes + (aligner_ ? kBlockSlackBytes : 0); }
  std::uint64_t buffer_bytes() const { return how_.peer || registered() ? kPeerBufferBytes : main_buffer_bytes(); }
  job::Task<Result<bool>> take_spare();
  job::Task<void> cancel_all();
  void post(std::uint64_t size, const datatype::SlotCursor& at);

  std::uint64_t checked_messages_ = 0;
  FlowContext& context_;
  Device& device_;
  const DatafileStream share_;
  const Route route_;
  StorageWriter writer_;
  StallWatch watch_;
  Window<Incoming> window_;
  datatype::SlotCursor ahead_;  // after the last message for which a receive was posted
  std::vector<Extent> scratch_;
  PooledBuffer spare_;
  std::uint64_t stream_bytes_ = 0;
  std::optional<BlockAligner> aligner_;  // run_direct only
  std::uint64_t ahead_at_ = 0;           // run_direct only: where `ahead_` is in the datafile
  std::vector<Edge> edges_;
  DirectIo how_;
  std::uint64_t peer_bytes_ = 0;  // bytes that were written from the other device's memory
  bool peer_refused_ = false;
  std::size_t given_ = 0;  // messages of the window, the oldest ones, that the carrier has been given
  Result<void> carried_;   // the carrier's first failure
  job::Event one_carried_;
};

}  // namespace spate::flow
