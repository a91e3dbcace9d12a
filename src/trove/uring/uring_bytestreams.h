// SPDX-License-Identifier: Apache-2.0
// The uring module: reads and writes of open datafiles by io_uring, the rest by the target's threads.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "trove/local_bytestreams.h"
#include "trove/uring/ring.h"
#include "trove/uring/ring_op.h"

namespace spate::trove {

struct UringOptions {
  LocalBytestreamsOptions local;
  unsigned ring_entries = 256;
  /// A write while nothing else is in flight goes to a thread.
  bool lone_writes_by_threads = true;
  std::size_t skip_setups = 0;  // see Ring::make
};

/// See Bytestreams for the contract. The ring belongs to the thread that first needs it. A thread that takes over while
/// nothing is in flight gets a new ring. While the ring has work, only its own thread may test or destroy this object.
/// The destructor waits for the operations in the ring and on threads.
class UringBytestreams final : public LocalBytestreams {
 public:
  /// kNotSupported: the kernel refuses a ring; use the pool.
  static Result<std::unique_ptr<UringBytestreams>> make(std::shared_ptr<LocalTarget> target, UringOptions options = {});
  ~UringBytestreams() override;

  /// Called by the thread that posts. At most Ring::kRegions regions.
  Result<void> register_memory(MutableByteView memory) override;
  void forget_memory(MutableByteView memory) override;
  std::size_t test(std::span<BytestreamCompletion> out) override;
  bool prepare_to_wait() override;
  /// "uring(single_issuer,defer_taskrun)", ...
  std::string describe() const override;

 private:
  UringBytestreams(std::shared_ptr<LocalTarget> target, UringOptions options);
  void start(std::unique_ptr<QueuedOp>& op) override;
  bool own_ring();
  /// Gives the ring as many of the operation's steps as it accepts; the rest waits.
  void advance(RingOp& op);
  bool give(RingStep& step);
  std::optional<unsigned> region_of(const iovec& piece) const;
  void take_result(RingStep& step, int result);
  void end_if_over(RingOp& op);
  void go_on();

  const UringOptions options_;
  std::unique_ptr<Ring> ring_;
  struct Region {
    MutableByteView memory;
    bool in_ring = false;
  };
  std::vector<Region> regions_;  // by slot; empty ones are free
  std::size_t steps_in_ring_ = 0;
  std::deque<RingStep*> rest_steps_;  // begun, to be given again
  std::deque<RingOp*> waiting_ops_;   // have steps that found the ring full
  std::unordered_map<RingOp*, std::unique_ptr<RingOp>> ops_;
};

}  // namespace spate::trove
