// SPDX-License-Identifier: Apache-2.0
// MungeDecoder: reads credentials of munge for a server, on a worker thread.
#pragma once

#include <atomic>
#include <memory>

#include "base/workers.h"
#include "job/event.h"
#include "job/task.h"
#include "rpc/munge.h"

namespace spate::rpc {

/// Reads one credential at a time: munged may take long to answer, and its limits are for all programs of the machine.
/// One executor uses it, and outlives it. The worker thread begins with the first credential. A call that is stopped
/// returns at once, and its credential is read all the same. The destructor waits for the credential that is being read
/// and drops those that wait; no call may be under way by then.
class MungeDecoder {
 public:
  MungeDecoder(std::shared_ptr<const Munge> munge, FsId fs, ServerId self, job::Executor& executor);
  MungeDecoder(const MungeDecoder&) = delete;
  MungeDecoder& operator=(const MungeDecoder&) = delete;
  ~MungeDecoder();

  /// Munge::read(). kBusy: too many are waiting.
  job::Task<Result<MungeIdentity>> read(Bytes credential, job::StopToken stop);

 private:
  struct Job;

  static constexpr std::size_t kMostWaiting = 64;
  const std::shared_ptr<const Munge> munge_;
  const FsId fs_;
  const ServerId self_;
  job::Executor& executor_;
  std::atomic<std::size_t> waiting_{0};  // credentials that the thread has not begun to read
  std::atomic<bool> stopping_{false};
  Workers workers_{"spate-munge", 1};  // last: its thread uses everything above
};

}  // namespace spate::rpc
