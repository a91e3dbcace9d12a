// SPDX-License-Identifier: Apache-2.0
// LockKeeper: the locks of all sessions: requests, waiting, what a restart forgets (docs/consistency.md, "Locks").
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "job/event.h"
#include "server/meta/core/core.h"
#include "server/meta/locks/lock_table.h"

namespace spate::meta {

/// The locks themselves are in memory. In the store is only which sessions have taken any, so that after a restart no
/// new lock is granted before each of those has claimed its own again, or has been fenced. One executor; pinned. Life:
/// construct -> start() -> requests; release() when a session's epoch has been fenced.
class LockKeeper final : public Locks {
 public:
  explicit LockKeeper(MetaCore& core, LockLimits limits = {});

  /// Before SessionTable::start(), which begins to release.
  job::Task<Result<void>> start();

  job::Task<Result<wire::LockReply>> lock(rpc::Call& call, wire::LockRequest request) override;
  job::Task<Result<wire::LockTestReply>> test(rpc::Call& call, wire::LockTestRequest request) override;
  job::Task<Result<wire::LockCancelReply>> cancel(rpc::Call& call, wire::LockCancelRequest request) override;
  job::Task<Result<wire::LockEventsReply>> events(rpc::Call& call, wire::LockEventsRequest request) override;
  job::Task<Result<wire::LockReclaimReply>> reclaim(rpc::Call& call, wire::LockReclaimRequest request) override;
  std::vector<ClientId> noted() const override;
  job::Task<Result<void>> release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) override;

  bool listens(const rpc::Call& call) override;
  std::uint64_t table_number() const override { return number_; }
  std::uint64_t recall_lease(ClientId client, std::uint32_t epoch, Handle object) override {
    return tell(client, epoch, wire::LockEventType::kLeaseRecalled, object.value);
  }

  const LockTable& table() const { return table_; }
  /// Until then nothing new is granted.
  bool in_grace();

 private:
  /// What one epoch of a session was told and is still to be told.
  struct Session {
    Session(std::uint32_t its_epoch, job::Executor& executor)
        : epoch(its_epoch), last_event(std::uint64_t{its_epoch} << 32U), news(executor) {}
    const std::uint32_t epoch;
    bool recorded = false;  // in the store
    bool over = false;
    std::uint64_t
        last_event;           // from the epoch's own range: an acknowledgment of an older epoch's says nothing of these
    std::uint64_t floor = 0;  // requests below it are late copies
    std::map<std::uint64_t, Result<wire::LockReply>> answers;  // by sequence, from floor on
    std::deque<wire::LockEvent> events;
    std::uint64_t polls = 0;  // the newest request for events is the one that waits
    job::Event news;
    void wake() {
      news.set();
      news.reset();
    }
  };
  using SessionPtr = std::shared_ptr<Session>;  // shared with requests that wait for events

  Result<void> admit(const rpc::Call& call) const;
  Result<LockWish> wish_of(const rpc::Call& call, const wire::LockSpec& lock) const;
  SessionPtr session_of(const rpc::Call& call);
  Result<std::optional<wire::LockReply>> earlier_answer(Session& session, const wire::LockRequest& request) const;
  job::Task<Result<void>> record(ClientId client, std::uint32_t epoch, job::StopToken stop);
  Result<wire::LockReply> decide(const LockWish& wish, const wire::LockRequest& request);
  std::uint64_t tell(ClientId client, std::uint32_t epoch, wire::LockEventType type, std::uint64_t subject);
  void tell_news();
  void drop_acknowledged(const rpc::Call& call, Session& session, std::uint64_t acknowledged);

  MetaCore& core_;
  LockTable table_;
  std::uint64_t number_ = 0;  // of this process's table
  MonoTime forfeit_;
  std::unordered_map<ClientId, SessionPtr> sessions_;
  std::map<ClientId, std::uint32_t> pending_;  // have locks from before the restart, of this epoch
  std::set<ClientId> reclaimed_;               // have claimed them
  std::size_t holds_ = 0;                      // requests for events that wait
};

}  // namespace spate::meta
