// SPDX-License-Identifier: Apache-2.0
// SessionEvents: events that the meta server sends to sessions: locks granted and recalled, attribute leases recalled.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "job/event.h"
#include "server/meta/core/core.h"

namespace spate::meta {

/// One queue of events for each epoch of a session, in memory. The client fetches them with a request that waits, and
/// acknowledges them with the next one (docs/consistency.md, "Locks"). After a restart the queues are empty and their
/// table number has changed; so clients know that they must reclaim what they hold.
///
/// One executor; pinned. Life cycle: construct -> start() -> requests; end() when a session's epoch is over. Waiting
/// requests end with their call, or with the session.
class SessionEvents {
 public:
  explicit SessionEvents(MetaCore& core) : core_(core) {}
  SessionEvents(const SessionEvents&) = delete;
  SessionEvents& operator=(const SessionEvents&) = delete;

  void start();
  /// A random number that start() draws, never 0. It identifies this process's tables of locks and leases.
  std::uint64_t table_number() const { return number_; }

  /// From now on the caller's session can get events. False: a newer epoch of it listens, or this one is over.
  bool listen(const rpc::Call& call);
  /// Adds an event about `subject`. Yields its number; 0 if no such session listens.
  std::uint64_t tell(ClientId client, std::uint32_t epoch, wire::SessionEventType type, std::uint64_t subject);
  /// The request for events: waits for one as long as the request says, at most one third of the session's lease.
  /// kSessionFenced: the session is over.
  job::Task<Result<wire::SessionEventsReply>> fetch(rpc::Call& call, wire::SessionEventsRequest request);
  /// The client's epochs below this one are over: they get no more events, and their requests end.
  void end(ClientId client, std::uint32_t below_epoch);

 private:
  struct Queue {
    Queue(std::uint32_t its_epoch, job::Executor& executor)
        : epoch(its_epoch), last_number(std::uint64_t{its_epoch} << 32U), changed(executor) {}
    const std::uint32_t epoch;
    bool over = false;
    // Numbers come from the epoch's own range, so that an acknowledgment from an older epoch does not match them.
    std::uint64_t last_number;
    std::deque<wire::SessionEvent> events;
    std::uint64_t polls = 0;  // only the newest request waits
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
