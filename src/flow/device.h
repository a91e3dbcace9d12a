// SPDX-License-Identifier: Apache-2.0
// Device: one storage target with its scheduler. Also the other parameters of a flow.
#pragma once

#include "bmi/network.h"
#include "datatype/description.h"
#include "dist/distribution.h"
#include "flow/buffer_pool.h"
#include "flow/counters.h"
#include "flow/scheduler.h"
#include "job/network.h"
#include "job/storage.h"
#include "wire/bulk_seals.h"

namespace spate::flow {

/// One target: its storage, and the scheduler of the operations on it. Not thread-safe: one executor. `storage` and
/// `executor` outlive it, and it outlives the flows on it: no operation waits or runs when it is destroyed. Not
/// movable.
class Device {
 public:
  Device(job::StorageContext& storage, job::Executor& executor, SchedulerOptions options = {})
      : executor_(executor), storage_(storage), scheduler_(executor, options) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  job::Executor& executor() { return executor_; }
  job::StorageContext& storage() { return storage_; }
  Scheduler& scheduler() { return scheduler_; }

 private:
  job::Executor& executor_;
  job::StorageContext& storage_;
  Scheduler scheduler_;
};

struct FlowOptions {
  /// How many messages of one stream are in flight at once, 1..64. Guess.
  std::size_t in_flight = 4;
  /// A stream whose peer moves nothing for one to two times this period ends with kTimeout.
  Duration stall_timeout = std::chrono::seconds(30);
};

/// Objects that all flows of a server share. They outlive the flows.
struct FlowContext {
  job::NetworkContext& network;
  BufferPool& pool;
  Counters& counters;
  FlowOptions options;
  /// Buffers in the memory of a PCI device (peer_memory.h); null: there are none.
  BufferPool* peer_pool = nullptr;
  /// Registered buffers for the direct path (registered_memory.h), for messages of up to kPeerUnitBytes. Null: the
  /// direct path uses any buffer.
  BufferPool* direct_pool = nullptr;
};

/// How a stream bypasses the server's page cache.
struct DirectIo {
  std::uint32_t alignment = 0;  // alignment of the target, bytes
  bool may_fall_back = false;   // if impossible: true: take another path and count that; false: kNotSupported
  bool peer = false;            // use buffers of FlowContext::peer_pool
};

/// Carries out the writes of a stream instead of its device.
class WriteCarrier {
 public:
  virtual ~WriteCarrier() = default;
  /// As StorageContext::run() of a kWrite. The memory behind the request's spans outlives the task.
  virtual job::Task<Result<trove::BytestreamCompletion>> write(trove::BytestreamRequest request,
                                                               job::StopToken stop) = 0;
};

/// One slot's share of a request: a stream of the datafile's bytes. Description and distribution outlive the flow.
struct DatafileStream {
  Asker asker;
  DatafileId datafile;
  const datatype::Description& what;
  const Distribution& distribution;
  bool may_rewrite_gaps = false;    // for a write: see trove::BytestreamRequest
  WriteCarrier* carrier = nullptr;  // of a write; null: the device itself. It outlives the flow.
};

/// The stream's other end: messages of `unit_bytes` (the last one shorter), all with one tag, bulk class.
struct Route {
  bmi::Address peer;
  bmi::Tag tag;
  std::uint32_t unit_bytes = 0;                      // kMinUnitBytes..kMaxUnitBytes
  std::shared_ptr<wire::BulkSeals> seals = nullptr;  // each message begins with a code by these; null: no codes
};

}  // namespace spate::flow
