// SPDX-License-Identifier: Apache-2.0
// ReadFlow: one slot's stream from its datafile to the client, in bulk messages.
#pragma once

#include <optional>
#include <vector>

#include "flow/block_plan.h"
#include "flow/peer_memory.h"
#include "flow/stall_watch.h"
#include "flow/storage_reader.h"
#include "flow/window.h"

namespace spate::flow {

/// Life cycle: construct -> one of the send calls, awaited -> drain(), awaited -> destroyed. The client has posted a
/// receive for each message before its request (wire::ReadRequest), so all messages leave in ready mode. At most
/// FlowOptions::in_flight messages are in flight. Not movable. Not thread-safe: one executor.
class ReadFlow {
 public:
  ReadFlow(FlowContext& context, Device& device, const DatafileStream& share, const Route& route);
  ReadFlow(const ReadFlow&) = delete;
  ReadFlow& operator=(const ReadFlow&) = delete;

  /// Reads into buffers of the pool and sends these. It continues to read while earlier messages leave. Ends when all
  /// messages have left, or with the first failure.
  job::Task<Result<void>> send_buffered(job::StopToken stop);
  /// Brings ranges of `file` into the page cache and sends them from there. Ends when all messages are posted; drain()
  /// waits until they have left. `stat` is the datafile's state: the stream ends at its size.
  job::Task<Result<void>> send_cached(std::shared_ptr<const trove::OpenDatafile> file, trove::BytestreamStat stat,
                                      job::StopToken stop);
  /// Reads whole blocks past the page cache into buffers of the pool, and sends the wanted pieces from the buffers.
  /// Ends as send_buffered() does. If pieces are so small that their blocks do not fit into a buffer, they are read
  /// through the cache and counted, or with `may_fall_back` false this fails with kNotSupported. The same holds if the
  /// target's device cannot move blocks to the other device's memory (how.peer); then these and all following blocks
  /// use buffers of the pool. `stat` as in send_cached().
  job::Task<Result<void>> send_direct(DirectIo how, trove::BytestreamStat stat, job::StopToken stop);
  /// Waits until all messages have left. To cancel them, stop the token that was given to send_*. Drops failures: after
  /// one of the network the connection is lost, and the client notices that by itself. For one of the file see
  /// file_unreadable().
  job::Task<void> drain();

  /// Bytes of the stream that were sent.
  std::uint64_t stream_bytes() const { return stream_bytes_; }
  const trove::BytestreamStat& stat() const { return stat_; }
  const DatafileId& datafile() const { return share_.datafile; }
  /// The network could not read the file that it sent. True at the latest after drain().
  bool file_unreadable() const { return file_unreadable_; }
  /// The target's device could not reach the other device's memory.
  bool peer_refused() const { return peer_refused_; }

 private:
  struct Outgoing {
    std::optional<job::NetworkOp> op;
    PooledBuffer buffer;
    wire::BulkSeals::Code code{};
  };

  void begin_stream(const trove::BytestreamStat& stat);
  job::Task<Result<PooledBuffer>> take_buffer(std::uint64_t size);
  job::Task<Result<void>> wait_oldest();
  Result<void> retire_done();
  void note_failure(Errc code);
  void post(bmi::SegmentList segments, PooledBuffer buffer);
  bmi::SegmentList seal(bmi::SegmentList segments, Outgoing& out);
  job::Task<Result<std::uint64_t>> gather();
  job::Task<Result<void>> make_resident();
  job::Task<Result<PooledBuffer>> read_message(std::uint64_t bytes);
  job::Task<Result<void>> leave_peer(PooledBuffer& buffer);
  job::Task<Result<void>> read_blocks(MutableByteView buffer);
  job::Task<Result<void>> read_pieces(MutableByteView buffer);
  bool cut_at_end();
  void count_direct();
  BufferPool& pool() const {
    if (how_.peer) return *context_.peer_pool;
    return registered() ? *context_.direct_pool : context_.pool;
  }
  /// Whether the stream goes past the page cache with registered buffers.
  bool registered() const {
    return how_.alignment > 0 && context_.direct_pool != nullptr && route_.unit_bytes <= kPeerUnitBytes;
  }
  /// Size of a buffer for one message past the page cache.
  std::uint64_t room() const {
    return how_.peer || registered() ? kPeerBufferBytes : route_.unit_bytes + kBlockSlackBytes;
  }

  std::uint64_t sealed_messages_ = 0;
  std::vector<bmi::Segment> sealed_;  // the message that is being posted, with its code
  FlowContext& context_;
  Device& device_;
  const DatafileStream share_;
  const Route route_;
  StallWatch watch_;
  Window<Outgoing> window_;
  PooledBuffer spare_;
  std::uint64_t stream_bytes_ = 0;
  trove::BytestreamStat stat_;

  // send_cached only.
  std::shared_ptr<const trove::OpenDatafile> file_;
  bool file_unreadable_ = false;

  // send_direct only.
  DirectIo how_;
  BlockPlan plan_;
  std::uint64_t peer_bytes_ = 0;    // bytes of the stream that went through the other device's memory
  std::uint64_t direct_bytes_ = 0;  // bytes of the stream that went in whole blocks through main memory
  bool peer_refused_ = false;

  // send_cached and send_direct.
  std::optional<datatype::SlotCursor> cursor_;
  std::vector<Extent> batch_;
  std::vector<Extent> extents_;  // of the message under construction
  std::vector<bmi::Segment> segments_;
  std::uint64_t left_ = 0;  // rest of the stream, if the description is unordered
  bool ended_ = false;
};

}  // namespace spate::flow
