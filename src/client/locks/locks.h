// SPDX-License-Identifier: Apache-2.0
// Locks: the locks that this client's processes and open files hold or wait for (docs/consistency.md, "Locks").
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/unique_function.h"
#include "client/locks/lock_doubts.h"
#include "client/session/limits.h"
#include "job/event.h"
#include "job/gate.h"
#include "wire/event_messages.h"
#include "wire/lock_messages.h"

namespace spate::client {

class AttributeCache;
class Session;

/// Knows which locks are held. So a close of a file without locks costs nothing, and the client can claim its locks
/// again after a restart of the meta server. A wait keeps no request open: one request of the client fetches all
/// events. One executor; any number of calls at once. Life cycle: construct -> calls -> stop() -> destroyed.
class Locks {
 public:
  /// Both parameters outlive this object. Events about leases go to `attributes`.
  Locks(Session& session, AttributeCache& attributes);
  ~Locks();
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;
  /// Ends all waits with kCancelled.
  job::Task<void> stop();

  /// Sets the mode of a range for the owner in `lock.owner` and `kind`. With `wait` it waits until the lock is granted
  /// or `stop` fires, whose reason it then returns. Without it: kTryAgain if another owner has the lock. kDeadlock,
  /// kNoLocks. kLostLock: the owner's locks were lost with the session. It gets no locks on the file until it has
  /// released everything there.
  job::Task<Result<void>> set(wire::LockSpec lock, bool wait, job::StopToken stop = {});
  /// The lock that conflicts with `lock`, also one of another client. Nothing: none does.
  job::Task<Result<std::optional<wire::LockSpec>>> test(wire::LockSpec lock);
  /// Releases all locks of this owner on the file. Sends no request if there are none.
  job::Task<Result<void>> release(Handle handle, LockHolder holder);

  bool holds(Handle handle, LockHolder holder);
  /// Whether a lock of some program on the file was lost and has not been released since. Others may have changed the
  /// data that the lock protected.
  bool lost(Handle handle);
  /// Call it when the session may be another one, or in another epoch. Marks the locks of the old session as lost.
  void check_session();
  /// Sets the function to call when another client waits for the right to append to a file.
  void on_recall(UniqueFunction<void(Handle)> action) { on_recall_ = std::move(action); }
  /// Sets the function to call when the lease on an object was recalled and the object was dropped.
  void on_lease_recall(UniqueFunction<void(Handle)> action) { on_lease_recall_ = std::move(action); }

  /// Takes over the locks of an earlier process. Call it before all other functions, when the session already is that
  /// of the earlier process.
  void inherit();
  /// Ends waits that programs began through an earlier process. The programs make the same calls again to this process
  /// (client/session/handover_state.h).
  job::Task<void> end_inherited_waits();

  /// Begins to fetch events, because a lease was granted: recalls of leases come with the events of locks.
  void start_listening();
  /// The meta server has answered. Over a new connection it may be a new process that has forgotten everything.
  void heard();

 private:
  struct Held {
    LockRanges ranges;
    std::uint32_t pid = 0;
    bool lost = false;
  };
  enum class WaitState : std::uint8_t { kWaiting, kGranted, kRefused, kAskAgain };
  struct Wait {
    Wait(wire::LockSpec its_lock, job::Executor& executor) : lock(its_lock), ended(executor) {}
    wire::LockSpec lock;
    WaitState state = WaitState::kWaiting;
    bool queued = false;     // the server has said that the lock waits
    bool abandoned = false;  // no caller waits for it any more: it must be cancelled or, if it was granted, released
    job::Event ended;        // set when `state` has changed or when no caller waits any more
  };
  using WaitPtr = std::shared_ptr<Wait>;

  std::uint64_t next_sequence();
  void note(const wire::LockSpec& lock, std::uint64_t sequence);
  void leave_in_doubt(const wire::LockSpec& lock, std::uint64_t sequence, const WaitPtr& wait);
  void give_up_what_is_in_doubt();
  void keep_state();
  Limits limits_here(job::StopToken stop = {}) const;
  bool is_current(const rpc::SessionEpoch& session);
  bool lost(const wire::LockSpec& lock) const;
  job::Task<Result<wire::LockReply>> send(const wire::LockSpec& lock, bool wait, std::uint64_t sequence);
  job::Task<Result<void>> wait_for(std::uint64_t sequence, WaitPtr wait, job::StopToken stop);
  job::Task<void> cancel(std::uint64_t sequence, WaitPtr wait, job::StopToken stop);
  void begin_wait(std::uint64_t sequence, WaitPtr wait);
  void forget_wait(std::uint64_t sequence);
  void end_wait(std::uint64_t sequence, WaitState state);
  void ask_again();
  bool wants_events() const;
  job::Task<void> listen();
  void take(const std::vector<wire::SessionEvent>& events);
  std::optional<std::uint64_t> hear(MonoTime asked, const wire::SessionEventsRequest& request,
                                    const wire::SessionEventsReply& reply);
  void know_table(std::uint64_t table);
  job::Task<void> give_back(wire::LockSpec lock);
  job::Task<Result<void>> reclaim(std::uint64_t stale);
  job::Task<Result<void>> reclaim_all(std::uint64_t stale);
  job::Task<void> check_table();

  Session& session_;
  AttributeCache& attributes_;
  // The following members belong to this session.
  ClientId client_;
  std::uint32_t epoch_ = 0;
  std::uint64_t table_ = 0;         // the server's table; 0: unknown
  std::uint64_t acknowledged_ = 0;  // the last event that was acknowledged
  std::uint32_t connection_ = 0;    // the connection over which the table was last reported
  bool has_locked_ = false;         // the server may remember this session if it restarts, and then waits for its claim
  /// The server waits to learn that recalled objects, or objects kept under another table, were dropped.
  bool untold_ = false;

  MonoTime inherited_until_;  // until then the server may count on leases of the earlier process

  std::map<Handle, std::map<LockHolder, Held>> held_;
  std::map<std::uint64_t, WaitPtr> waits_;  // by sequence
  LockDoubts doubts_;
  std::uint64_t last_sequence_ = 0;
  std::set<std::uint64_t> under_way_;
  bool listening_ = false;
  bool reclaiming_ = false;
  bool checking_ = false;
  Result<void> reclaimed_;
  job::Event reclaim_done_;
  std::vector<std::pair<std::uint64_t, wire::LockSpec>> inherited_waits_;
  UniqueFunction<void(Handle)> on_recall_;
  UniqueFunction<void(Handle)> on_lease_recall_;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::client
