// SPDX-License-Identifier: Apache-2.0
// SessionTable: the sessions of all clients, and the release of everything that ended sessions held
// (docs/consistency.md, "Sessions").
#pragma once

#include <memory>
#include <unordered_map>

#include "job/gate.h"
#include "job/semaphore.h"
#include "log/rate_limit.h"
#include "server/meta/core/answers.h"
#include "server/meta/session/opens.h"

namespace spate::meta {

/// A session is open, expired (silent for longer than the lease; it may come back in a higher epoch) or ending. Each
/// end raises its epoch. Everything that the lower epochs held is first fenced at the io servers and only then
/// released. One executor; pinned. Life cycle: construct -> start() awaited -> join() and requests -> stop() awaited ->
/// destroyed.
class SessionTable final : public Sessions {
 public:
  SessionTable(MetaCore& core, AnswerTable& answers, OpenTable& opens);

  /// Reads the sessions of an earlier process; each gets a new lease. Call it after OpenTable::start().
  job::Task<Result<void>> start();
  job::Task<void> stop();

  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override;
  Result<void> admit(const rpc::Call& call) override;
  Result<void> check(const rpc::Call& call) const override;
  job::Task<Result<wire::KeepAliveReply>> keep_alive(rpc::Call& call, wire::KeepAliveRequest request) override;
  job::Task<Result<wire::EndSessionReply>> end(rpc::Call& call, wire::EndSessionRequest request) override;
  /// The number of open sessions.
  std::uint64_t count() const override { return open_; }
  void skip_clients(ClientId used) override { std::ignore = clients_.skip_to_after(used.value); }
  bool is_ending(ClientId client) const override;
  wire::ListFencesReply fences(ClientId after) const override;
  void end_epoch(ClientId client, std::string_view why) override;
  void end_sessions_of(const KeyId& key) override;

  /// How long a ticket is valid, and for how long an expired session may come back.
  static constexpr Duration kTicketLife = std::chrono::hours(24);

 private:
  struct Session {
    Session(SessionRecord its_record, job::Executor& executor) : record(std::move(its_record)), turn(executor, 1) {}
    SessionRecord record;
    MonoTime last_heard;
    std::uint32_t fence_begun = 0;  // io servers have been told, or are being told, to refuse lower epochs
    job::Semaphore turn;            // changes of the record run one after another
    bool unsaved = false;           // the record in memory is newer than the stored one
    bool releasing = false;
    bool open() const { return record.state == SessionState::kOpen; }
  };
  using SessionPtr = std::shared_ptr<Session>;  // shared with requests that wait for their turn

  SessionPtr find(ClientId client) const;
  void add(SessionRecord record);
  job::Task<Result<void>> note_key(SessionPtr session, const rpc::Peer& peer);
  void set_state(Session& session, SessionState state);
  SessionTicket ticket_for(const Session& session) const;
  void fill(const Session& session, wire::AuthenticateReply& reply) const;
  job::Task<Result<SessionPtr>> open_new(const wire::AuthenticateRequest& request, std::optional<KeyId> user_key,
                                         job::StopToken stop);
  job::Task<Result<SessionPtr>> resume(const rpc::Peer& peer, const wire::AuthenticateRequest& request);
  Result<void> check_claim(const Session& session, const rpc::Peer& peer,
                           const wire::AuthenticateRequest& request) const;
  job::Task<Result<void>> load();

  // session_end.cc
  job::Task<void> watch_leases();
  void end_silent_ones();
  void expire(const SessionPtr& session, std::string_view why);
  std::vector<SessionPtr> to_be_forgotten() const;
  void prolong_all(Duration by);
  job::Task<Result<void>> save(Session& session, trove::Durability durability);
  void begin_release(const SessionPtr& session);
  job::Task<void> release(SessionPtr session);
  job::Task<Result<void>> release_once(Session& session);
  job::Task<Result<void>> release_locks(ClientId client, std::uint32_t below_epoch);
  job::Task<Result<void>> erase(Session& session);

  MetaCore& core_;
  AnswerTable& answers_;
  OpenTable& opens_;
  Counter clients_;
  std::unordered_map<ClientId, SessionPtr> sessions_;
  std::uint64_t open_ = 0;
  job::Semaphore releases_;  // limits how many sessions are released at once
  job::StopSource stopping_;
  job::Gate gate_;
  log::RateLimit log_limit_;
};

}  // namespace spate::meta
