// SPDX-License-Identifier: Apache-2.0
// LocalBytestreams: Bytestreams over a LocalTarget. post() executes what needs no wait; threads execute the rest. A
// module may try another way (a ring) before the threads.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "trove/local_target.h"
#include "trove/notify_queue.h"

namespace spate::trove {

struct LocalBytestreamsOptions {
  /// post() executes a read or write up to this size, bytes, if it need not wait for a device. A longer copy would keep
  /// the executor from its other work. 0: post() executes nothing. Guess.
  std::uint64_t inline_limit_bytes = 4U << 20U;
};

/// A posted operation that was not complete at once. It owns copies of the arrays that its request's spans name.
struct QueuedOp {
  QueuedOp(const BytestreamRequest& posted, const BytestreamCompletion& begun);
  QueuedOp(const QueuedOp&) = delete;
  QueuedOp& operator=(const QueuedOp&) = delete;

  std::vector<Extent> extents;
  std::vector<MutableByteView> memory;
  BytestreamRequest request;
  BytestreamCompletion done;
  bool if_it_fits = false;  // the device may have no room for it
};

/// See Bytestreams for the contract, the life cycle and the threads. The destructor waits for the operations that
/// worker threads execute; nobody gets their completions.
class LocalBytestreams : public Bytestreams {
 public:
  LocalBytestreams(std::shared_ptr<LocalTarget> target, LocalBytestreamsOptions options);
  LocalBytestreams(const LocalBytestreams&) = delete;
  LocalBytestreams& operator=(const LocalBytestreams&) = delete;
  ~LocalBytestreams() override;

  bool post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) final;
  std::size_t test(std::span<BytestreamCompletion> out) override { return queue_.pop(out); }
  int wait_descriptor() const final { return queue_.descriptor(); }
  bool prepare_to_wait() override { return queue_.prepare_to_wait(); }
  Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) final;
  Result<SpaceInfo> space() final;
  DirectAbility direct() const final { return target_->direct(); }
  Result<void> try_device_memory(MutableByteView memory) final { return target_->try_device_memory(memory); }
  Result<std::unique_ptr<LeasePage>> make_lease(const LeaseTitle& title) final {
    return FolderLeasePage::make(target_->folder().folder.get(), title);
  }
  Result<std::vector<std::unique_ptr<LeasePage>>> left_leases() final {
    return FolderLeasePage::left_over(target_->folder().folder.get());
  }

 protected:
  /// Either takes the operation, and leaves `op` null, or leaves it to the threads.
  virtual void start(std::unique_ptr<QueuedOp>& /*op*/) {}
  void run_on_threads(std::unique_ptr<QueuedOp> op);
  /// Operations that the threads have not ended yet.
  bool threads_busy();

  LocalTarget& target() { return *target_; }
  NotifyQueue<BytestreamCompletion>& queue() { return queue_; }

 private:
  Errc check(const BytestreamRequest& request) const;
  bool complete_now(const BytestreamRequest& request, BytestreamCompletion& done);
  bool has_room(std::uint64_t bytes);
  void ended_on_thread();

  const std::shared_ptr<LocalTarget> target_;
  std::uint64_t unlooked_bytes_ = 0;  // may be written before the device's space is checked again
  const LocalBytestreamsOptions options_;
  NotifyQueue<BytestreamCompletion> queue_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::size_t on_threads_ = 0;  // guarded by mutex_
};

}  // namespace spate::trove
