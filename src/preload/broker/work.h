// SPDX-License-Identifier: Apache-2.0
// Work: one task of the broker at the servers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "assembly/client_process.h"
#include "preload/broker/messages.h"

namespace spate::preload {

/// Filled in by the broker's loop, then run on the client's executor until finished() is true; the loop owns it,
/// destroys it after that, and touches nothing but cancel() before.
class Work {
 public:
  /// What is to be released; a program asks for at most one of them.
  struct Owner {
    Handle handle;
    client::LockHolder holder;
  };

  explicit Work(assembly::ClientProcess& process) : process_(process) {}
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // What to do.
  BrokerRequest request;
  std::vector<Owner> owners;           // kDrop
  std::unique_ptr<client::File> file;  // kHold: opened here; kDrop: to be closed
  BrokerReply reply;

  /// The executor's thread calls `then` when everything is done; only finished() is still false.
  void begin(std::function<void()> then);
  /// Gives up the wait for a lock.
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
