// SPDX-License-Identifier: Apache-2.0
// Work: one task of the broker that uses the servers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "assembly/client_process.h"
#include "preload/broker/messages.h"

namespace spate::preload {

/// The broker's loop makes it, fills in the task, and calls begin(). The work then runs on the client's executor. Until
/// finished() is true the loop calls only cancel(). After that it reads the results and destroys the object; the
/// destructor waits for the last function of the task. `process` outlives the object.
class Work {
 public:
  /// The owner of locks to release; a program's request has at most one.
  struct Owner {
    Handle handle;
    client::LockHolder holder;
  };

  explicit Work(assembly::ClientProcess& process) : process_(process) {}
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // The task.
  BrokerRequest request;
  std::vector<Owner> owners;           // kDrop
  std::unique_ptr<client::File> file;  // kHold: opened by this work; kDrop: to be closed
  BrokerReply reply;

  /// Starts the task. The executor's thread calls `then` after finished() is true; the destructor waits for that call.
  void begin(std::function<void()> then);
  /// Ends the wait for a lock.
  void cancel();
  bool finished() const { return finished_.load(std::memory_order_acquire); }

 private:
  job::Task<Result<void>> run();
  job::Task<Result<void>> act();
  job::Task<Result<void>> hold();
  job::Task<Result<void>> drop();

  assembly::ClientProcess& process_;
  std::function<void()> then_;
  job::StopSource stop_;
  std::atomic<bool> finished_{false};
  std::unique_ptr<client::Driver::StartedTask<Result<void>>> started_;
};

}  // namespace spate::preload
