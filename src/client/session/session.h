// SPDX-License-Identifier: Apache-2.0
// Session: this client's session with the meta server, and the requests of the session.
#pragma once

#include <memory>

#include "base/random.h"
#include "client/options.h"
#include "client/session/change_batcher.h"
#include "client/session/limits.h"
#include "client/session/request_slots.h"
#include "client/session/servers.h"
#include "job/gate.h"
#include "job/network.h"
#include "job/semaphore.h"
#include "rpc/channel.h"
#include "wire/messages.h"

namespace spate::client {

/// Learns of changes of the session. All calls come on the executor. Only end_inheritance() may wait.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  /// The next handshake with the meta server begins. The server may be another process, which knows nothing about this
  /// client.
  virtual void handshake_begins() = 0;
  /// The meta server has another incarnation: its machine was started anew, and may have lost the latest changes.
  virtual void meta_restarted() = 0;
  /// The session is open. It may be in another epoch, or another session.
  virtual void session_changed() = 0;
  /// The meta server has answered a keep-alive.
  virtual void heard() = 0;
  /// Finishes what an earlier process of this session left undone.
  virtual job::Task<void> end_inheritance() = 0;
  /// Whether a lock on the file was lost with an earlier epoch.
  virtual bool lost_lock(Handle file) = 0;
  /// Whether such a request must follow changes that are queued.
  virtual bool must_follow(wire::Op op, ByteView body) = 0;
  /// Sends these changes.
  virtual job::Task<Result<void>> send_queued(Limits limits) = 0;
};

/// The session of one client at the meta server, and the requests of the session.
///
/// The first request opens the session, and a task keeps it alive while the executor is driven: it sends a keep-alive
/// every third of the lease. When the session ends, for example because it expired, the next request opens a new epoch
/// or another session.
///
/// Life cycle: construct -> observe() -> requests -> request_stop() -> stop() awaited -> destroyed. Requests of callers
/// have ended before stop(). One executor; any number of requests at once. Not movable.
class Session {
 public:
  /// `network` and `random` outlive the session. Sends nothing.
  Session(Options options, job::NetworkContext& network, Random& random);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Call it once, before the first request. The observer outlives the session.
  void observe(SessionObserver& observer) {
    observer_ = &observer;
    meta().on_restart([this] { observer_->meta_restarted(); });
  }
  /// Ends the keep-alives, so that they open no new session.
  void request_stop() { stopping_.request_stop(); }
  /// Ends the session at the meta server (best effort, within `limits`), and waits for all tasks. Call it after
  /// request_stop().
  job::Task<void> stop(Limits limits);

  /// Sends a request to the meta server that changes nothing. It is repeated after a lost connection.
  template <typename Request>
  job::Task<Result<wire::ReplyOf<Request>>> ask(const Request& request, Limits limits,
                                                std::uint32_t reply_room = 16 * 1024) {
    Bytes body;
    wire::encode_body(request, body);
    SPATE_CO_TRY(auto raw, co_await send_query(Request::kOp, body, limits, reply_room));
    auto reply = wire::decode_body<wire::ReplyOf<Request>>(raw.body);
    co_return reply;
  }
  /// Sends a request that changes something to the meta server. The request has an id, so it can be resent safely.
  /// Changes that are made at the same time may go together (ChangeBatcher).
  job::Task<Result<ChangeReply>> send_change(wire::Op op, ByteView body, Limits limits);

  /// Sends a request that has numbers of its own, by which the server makes it once. It is valid in one epoch.
  job::Task<Result<ChangeReply>> send_numbered(wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room);

  /// Opens the session if it is not open, because io servers demand its ticket.
  job::Task<Result<void>> ensure_open(Limits limits);
  /// Call it after kSessionFenced or kSessionUnknown in the epoch `ended`. Makes a new handshake with the meta server,
  /// which begins a new epoch or session. Sends nothing if a new one has begun already. Each io server learns of it
  /// with the next request.
  job::Task<Result<void>> renew(Limits limits, rpc::SessionEpoch ended);
  /// Continues the session of an earlier process, if there is one. Call it before the first request. Other requests
  /// wait until the leases of that process are given back.
  void resume();
  /// Whether this session was continued from an earlier process.
  bool inherited() const { return inherited_; }
  /// Asks the meta server for the servers of targets that were added after this process read its spate.toml, and for
  /// the groups of a mirrored file. Returns at once if all are known. The deadline of `limits` applies. After a failure
  /// it may be called again.
  job::Task<Result<void>> learn_targets(const Layout& layout, Limits limits);
  /// Asks the meta server for the records of these groups, and for the servers of their primaries if they are not
  /// known. kNotFound: there is no such group.
  job::Task<Result<void>> learn_groups(std::vector<TargetId> groups, Limits limits);
  /// Asks for the cluster map, even if it is known.
  job::Task<Result<void>> learn_map(Limits limits);
  /// As learn_map(), if a reply of the meta server has said that there is a newer cluster map.
  job::Task<Result<void>> learn_newer_map(Limits limits);

  /// Limits for a new operation: the deadline of the options, and a new trace id.
  Limits limits(job::StopToken stop = {});
  /// The operation that begins next, in this turn of the executor, is part of the program's call `request_id`
  /// (client/session/handover_state.h).
  void next_request_id(std::uint64_t request_id) { next_request_id_ = request_id; }

  Servers& servers() { return servers_; }
  rpc::Channel& meta() { return servers_.meta(); }
  const Options& options() const { return options_; }
  const rpc::Identity& identity() const { return identity_; }
  /// The state that outlives this process. May be null.
  HandoverState* handover() const { return options_.handover; }
  job::Executor& executor() { return network_.executor(); }
  job::NetworkContext& network() { return network_; }
  /// The file system's clock, as accurately as this client knows it.
  WallTime fs_time() const;

 private:
  job::Task<Result<rpc::RawReply>> send_query(wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room);
  job::Task<Result<rpc::RawReply>> send_one_change(wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room);
  bool knows_newest_map() { return meta().map_version() <= servers_.map().version; }
  job::Task<Result<void>> fetch_map(Limits limits);
  job::Task<Result<void>> fetch_groups(std::vector<TargetId> groups, Limits limits);
  job::Task<void> keep_alive();
  void begin_to_learn_map();
  job::Task<void> learn_map_aside();
  job::Task<Result<void>> handshake_with_meta(Limits limits);
  void inherit();
  void keep_for_next_process();
  job::Task<void> resume_now();
  job::Task<void> end_inheritance();
  std::int64_t wall_of_monotonic_ns() const;

  const Options options_;
  job::NetworkContext& network_;
  SeededRandom traces_;  // seeded, because each random number of the process costs a system call
  rpc::Identity identity_;
  bool inherited_ = false;
  Servers servers_;
  RequestSlots slots_;
  job::Semaphore map_turn_;  // one request for the cluster map at a time
  SessionObserver* observer_ = nullptr;
  job::Gate gate_;
  job::StopSource stopping_;
  ChangeBatcher batcher_;
  bool keeping_alive_ = false;
  bool learning_map_ = false;
  std::uint64_t next_request_id_ = 0;
};

}  // namespace spate::client
