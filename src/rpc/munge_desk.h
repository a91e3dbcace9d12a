// SPDX-License-Identifier: Apache-2.0
// MungeDesk: reads credentials of munge for a server, on a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "job/event.h"
#include "job/task.h"
#include "rpc/munge.h"

namespace spate::rpc {

/// One after another, since munged may take its time to answer, and its own limits are for all programs of the machine.
/// One executor uses it; the executor outlives it. The destructor waits for the credential that is being read.
class MungeDesk {
 public:
  MungeDesk(std::shared_ptr<const Munge> munge, FsId fs, ServerId self, job::Executor& executor);
  MungeDesk(const MungeDesk&) = delete;
  MungeDesk& operator=(const MungeDesk&) = delete;
  ~MungeDesk();

  /// Munge::read(). kBusy: too many are waiting.
  job::Task<Result<Vouched>> read(Bytes credential, job::StopToken stop);

 private:
  struct Case;
  void run();

  static constexpr std::size_t kMostWaiting = 64;
  const std::shared_ptr<const Munge> munge_;
  const FsId fs_;
  const ServerId self_;
  job::Executor& executor_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::shared_ptr<Case>> waiting_;  // guarded by mutex_
  bool stopping_ = false;                      // guarded by mutex_
  std::thread thread_;                         // last: it uses everything above
};

}  // namespace spate::rpc
