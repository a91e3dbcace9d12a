// SPDX-License-Identifier: Apache-2.0
// EventListener: learns what the meta server tells this client's session (docs/consistency.md, "Locks").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/unique_function.h"
#include "job/gate.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/ids.h"
#include "rpc/identity.h"
#include "wire/event_messages.h"

namespace spate::client {

class AttributeCache;
class Session;

/// The locks of the session, as EventListener sees them. All calls come on the executor.
///
/// An interface, since locks/, where Locks is, includes session/.
class SessionLocks {
 public:
  virtual ~SessionLocks() = default;
  /// Whether a caller waits for a lock, or another client may want a right to append of this client.
  virtual bool want_events() const = 0;
  /// An event about a lock, or about a right to append. The same event may come twice.
  virtual void take(const wire::SessionEvent& event) = 0;
  /// The session is another one, or in another epoch. The locks of the old one are lost.
  virtual void session_changed() = 0;
  /// Whether the meta server may remember that this session has locked something. If so, a new process of the server
  /// waits for the session's claim, even if the session holds no lock any more.
  virtual bool must_claim() const = 0;
  /// No lock is held, and no request for one is under way.
  virtual bool idle() const = 0;
  /// Claims all held locks from the present process of the meta server. `stale`: the table of the earlier process, 0 if
  /// it is not known. At the end calls EventListener::answered() or claim_refused(), after a failure neither.
  virtual job::Task<Result<void>> reclaim(std::uint64_t stale) = 0;
  /// Cancels waits for locks that no caller needs any more.
  virtual job::Task<void> cancel_abandoned(job::StopToken stop) = 0;
};

/// The writes that this client has acknowledged and not sent, as EventListener sees them.
///
/// An interface, since GatheredWrites includes session/.
class SessionWrites {
 public:
  virtual ~SessionWrites() = default;
  /// Whether another client may wait for the end of this client's writes to a file.
  virtual bool any() const = 0;
  /// Sends what belongs to files that this client alone no longer writes. Waits `limit` at most. False: something is
  /// not sent yet.
  virtual job::Task<bool> send_revoked(Duration limit) = 0;
};

/// The changes that this client has answered and not sent, as EventListener sees them.
class SessionChanges {
 public:
  virtual ~SessionChanges() = default;
  /// Whether this client may answer changes. If so, others wait after a restart of the server until this client has
  /// told that it knows the new table. So it listens all the time.
  virtual bool on() const = 0;
  /// The session is another one, or in another epoch, and nothing of the old one is kept.
  virtual void session_changed() = 0;
  /// Sends them. Waits `limit` at most. False: something is not sent yet.
  virtual job::Task<bool> send_all_within(Duration limit) = 0;
};

/// Fetches the events of this session while anything of this client may get some: a lock was granted, a right to append
/// or a lease was recalled. It keeps one request open at the meta server, and acknowledges events with the next one.
///
/// It also knows which process of the meta server answers. A *table* is the number by which a process of the server
/// identifies its tables of locks and leases. When it changes, the leases are over, the numbers of events begin again,
/// and the locks must be claimed again.
///
/// Life cycle: construct -> serve() -> inherit(), if an earlier process has had the session -> other calls ->
/// request_stop() -> stop() awaited -> destroyed. One executor; any number of calls at once. Not movable.
class EventListener {
 public:
  /// All parameters outlive this object. Recalls of leases go to `attributes`. None is acknowledged before `writes`
  /// has sent what was gathered under the lease, nor before `changes` has sent what was queued.
  EventListener(Session& session, AttributeCache& attributes, SessionWrites& writes, SessionChanges& changes);
  EventListener(const EventListener&) = delete;
  EventListener& operator=(const EventListener&) = delete;

  /// Call it once, before all other functions. `locks` is there until stop() has ended.
  void serve(SessionLocks& locks) { locks_ = &locks; }
  /// Sets the function to call when the lease on an object was recalled and the object was dropped.
  void on_lease_recall(UniqueFunction<void(Handle)> action) { on_lease_recall_ = std::move(action); }

  /// Continues where an earlier process of this session has stopped. The session already is that of the process.
  void inherit();
  /// Listens also for leases that the earlier process may have got.
  void listen_for_inherited_leases();

  /// Fetches events from now on, if anything may get some. Call it when a lock, a right to append or a lease was
  /// granted, or when a lock is waited for.
  void start();
  /// Ends the request for events that is open. No further one begins.
  void request_stop() { stopping_.request_stop(); }
  /// Waits until no request is under way, and no claim that this object has begun. Call it after request_stop().
  job::Task<void> stop();

  /// Call it when the session may be another one, or in another epoch. If so, drops what belongs to the old one.
  void check_session();
  /// The epoch to which the following belongs, as of the last check_session().
  const rpc::SessionEpoch& epoch() const { return epoch_; }
  /// The present table. 0: not known.
  std::uint64_t table() const { return table_; }

  /// The meta server has answered a keep-alive. Over a new connection it may be a new process: asks it for its table.
  void heard();
  /// The process with this table has answered a request for a lock, or has accepted the claim of the held locks.
  void answered(std::uint64_t table);
  /// The meta server has refused the claim. If the table still is `stale`, the next reply tells the present one.
  void claim_refused(std::uint64_t stale);

 private:
  /// The result of a request for events.
  struct Fetched {
    bool sent = false;
    bool current = false;  // there is a reply, and it belongs to the present epoch
    bool events = false;   // the reply has some
    MonoTime asked;
    std::uint64_t table = 0;             // of the reply
    std::optional<std::uint64_t> stale;  // set: the locks must be claimed, see SessionLocks::reclaim()
  };

  bool wants_events() const;
  job::Task<void> listen();
  job::Task<void> check_table();
  job::Task<Fetched> fetch(Duration hold);
  std::optional<std::uint64_t> hear(MonoTime asked, const wire::SessionEventsRequest& request,
                                    const wire::SessionEventsReply& reply);
  void take(const std::vector<wire::SessionEvent>& events);
  void know_table(std::uint64_t table);
  job::Task<wire::SessionEventsRequest> next_request();
  std::uint32_t connection_now() const;
  void keep_state();

  Session& session_;
  AttributeCache& attributes_;
  SessionWrites& writes_;
  SessionChanges& changes_;
  SessionLocks* locks_ = nullptr;
  // The following members belong to this epoch.
  rpc::SessionEpoch epoch_;
  std::uint64_t table_ = 0;
  std::uint64_t acknowledged_ = 0;  // the last event of the table that was taken
  // The last table and event for which nothing gathered was left, so that they may be acknowledged.
  std::uint64_t settled_table_ = 0;
  std::uint64_t settled_ = 0;
  std::uint32_t connection_ = 0;  // the connection over which the table was last reported
  /// The server waits to learn that recalled objects, or objects kept under another table, were dropped.
  bool untold_ = false;
  MonoTime inherited_until_;  // until then the server may count on leases of the earlier process

  bool listening_ = false;
  bool checking_ = false;
  UniqueFunction<void(Handle)> on_lease_recall_;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::client
