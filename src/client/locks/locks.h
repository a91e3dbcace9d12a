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
#include "client/locks/held_locks.h"
#include "client/locks/lock_doubts.h"
#include "client/session/event_listener.h"
#include "client/session/limits.h"
#include "job/event.h"
#include "job/gate.h"
#include "wire/event_messages.h"
#include "wire/lock_messages.h"

namespace spate::client {

class Session;

/// Knows which locks are held. So a close of a file without locks costs nothing, and the client can claim its locks
/// again after a restart of the meta server. A wait keeps no request open: EventListener fetches the grants.
///
/// Life cycle: construct -> inherit(), if an earlier process has had the session -> calls -> stop() awaited ->
/// destroyed. One executor; any number of calls at once.
class Locks final : private SessionLocks {
 public:
  /// Both parameters outlive this object, which `events` serves from now on.
  Locks(Session& session, EventListener& events);
  ~Locks() override;
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;
  /// Ends all waits and requests with kCancelled. The end of the session releases what is still held.
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
  /// Sets the function to call when another client waits for the right to append to a file.
  void on_recall(UniqueFunction<void(Handle)> action) { on_recall_ = std::move(action); }

  /// Takes over the locks of an earlier process. Call it before all other functions, when the session and `events`
  /// already are those of the earlier process.
  void inherit();
  /// Ends waits that programs began through an earlier process. The programs make the same calls again to this process
  /// (client/session/handover_state.h).
  job::Task<void> end_inherited_waits();

 private:
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

  bool want_events() const override;
  void take(const wire::SessionEvent& event) override;
  void session_changed() override;
  bool must_claim() const override { return has_locked_; }
  bool idle() const override;
  job::Task<Result<void>> reclaim(std::uint64_t stale) override;
  job::Task<void> cancel_abandoned(job::StopToken stop) override;

  std::uint64_t next_sequence();
  void note(const wire::LockSpec& lock, std::uint64_t sequence);
  void leave_in_doubt(const wire::LockSpec& lock, std::uint64_t sequence, const WaitPtr& wait);
  void give_up_what_is_in_doubt();
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
  job::Task<void> give_back(wire::LockSpec lock);
  void mark_lost(const wire::LockSpec& lock);
  job::Task<Result<void>> reclaim_all(std::uint64_t stale);

  Session& session_;
  EventListener& events_;
  /// In this epoch of the session. The server may remember the session if it restarts, and then waits for its claim.
  bool has_locked_ = false;

  HeldLocks held_;
  std::map<std::uint64_t, WaitPtr> waits_;  // by sequence
  LockDoubts doubts_;
  std::uint64_t last_sequence_ = 0;
  std::set<std::uint64_t> under_way_;
  bool reclaiming_ = false;
  Result<void> reclaimed_;
  job::Event reclaim_done_;
  std::vector<std::pair<std::uint64_t, wire::LockSpec>> inherited_waits_;
  UniqueFunction<void(Handle)> on_recall_;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::client
