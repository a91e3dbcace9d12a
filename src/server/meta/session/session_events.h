// SPDX-License-Identifier: Apache-2.0
// SessionEvents: what the meta server tells sessions by itself: locks granted and recalled, attribute leases recalled.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "job/event.h"
#include "server/meta/core/core.h"

namespace spate::meta {

/// One queue of events for each epoch of a session, in memory. The client fetches them by a request that waits, and
/// acknowledges them with its next one (docs/consistency.md, "Locks"). After a restart the queues are empty: their
/// table number has changed, which tells clients to claim again what they hold.
///
/// One executor; pinned. Life: construct -> start() -> requests; end() when a session's epoch is over. Requests that
/// wait end with their call, or with the session.
class SessionEvents {
 public:
  explicit SessionEvents(MetaCore& core) : core_(core) {}
  SessionEvents(const SessionEvents&) = delete;
  SessionEvents& operator=(const SessionEvents&) = delete;

  void start();
  /// Drawn at random by start(), never 0: names this process's tables of locks and leases.
  std::uint64_t table_number() const { return number_; }

  /// From now on the caller's session can be told events. False: a newer epoch of it can, or this one is over.
  bool listen(const rpc::Call& call);
  /// Adds an event about `subject`. Its number; 0 when no such session listens.
  std::uint64_t tell(ClientId client, std::uint32_t epoch, wire::LockEventType type, std::uint64_t subject);
  /// The request for events: waits until there is one, for as long as the request says, one third of the session's
  /// lease at most. kSessionFenced: the session is over.
  job::Task<Result<wire::LockEventsReply>> fetch(rpc::Call& call, wire::LockEventsRequest request);
  /// The client's epochs below this one are over: nothing is told to them, and their requests end.
  void end(ClientId client, std::uint32_t below_epoch);

 private:
  struct Queue {
    Queue(std::uint32_t its_epoch, job::Executor& executor)
        : epoch(its_epoch), last_number(std::uint64_t{its_epoch} << 32U), changed(executor) {}
    const std::uint32_t epoch;
    bool over = false;
    // Numbers come from the epoch's own range, so that an acknowledgment from an older epoch does not match them.
    std::uint64_t last_number;
    std::deque<wire::LockEvent> events;
    std::uint64_t polls = 0;  // the newest request is the one that waits
    job::Event changed;
    void wake() {
      changed.set();
      changed.reset();
    }
    void finish() {
      over = true;
      wake();
    }
  };
  using QueuePtr = std::shared_ptr<Queue>;  // shared with requests that wait

  QueuePtr queue_of(const rpc::Call& call);
  void drop_acknowledged(const rpc::Call& call, Queue& queue, std::uint64_t acknowledged);
  job::Task<void> wait_for_event(const rpc::Call& call, QueuePtr queue, Duration longest);

  MetaCore& core_;
  std::uint64_t number_ = 0;
  std::unordered_map<ClientId, QueuePtr> queues_;
  std::size_t waiting_ = 0;  // requests
};

}  // namespace spate::meta
