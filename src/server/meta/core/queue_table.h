// SPDX-License-Identifier: Apache-2.0
// QueueTable: the turns of queued changes (docs/consistency.md, "Delegated directories").
#pragma once

#include <memory>
#include <unordered_map>

#include "job/semaphore.h"
#include "model/ids.h"

namespace spate::meta {

/// Requests with queued changes of one client run one after another, so that each sees the number of the last change
/// before it. The numbers are in the store. One executor; pinned.
class QueueTable {
 public:
  struct Queue {
    explicit Queue(job::Executor& executor) : turn(executor, 1) {}
    job::Semaphore turn;
    bool known = false;  // this process has stored the client's last number
  };
  using QueuePtr = std::shared_ptr<Queue>;  // shared with requests under way

  explicit QueueTable(job::Executor& executor) : executor_(executor) {}
  QueueTable(const QueueTable&) = delete;
  QueueTable& operator=(const QueueTable&) = delete;

  QueuePtr of(ClientId client);
  /// The client's session has ended for good: its later requests are refused.
  void forget(ClientId client) { queues_.erase(client); }

 private:
  job::Executor& executor_;
  std::unordered_map<ClientId, QueuePtr> queues_;
};

inline QueueTable::QueuePtr QueueTable::of(ClientId client) {
  QueuePtr& queue = queues_[client];
  if (queue == nullptr) queue = std::make_shared<Queue>(executor_);
  return queue;
}

}  // namespace spate::meta
