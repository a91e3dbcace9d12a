// SPDX-License-Identifier: Apache-2.0
// Session: this client's session with the meta server, and the requests that are sent in it.
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

/// What depends on the session. All calls come on the executor; none but end_inheritance() waits.
class SessionObserver {
 public:
  virtual ~SessionObserver() = default;
  /// The next handshake with the meta server begins. It may be another process, which knows nothing of this client.
  virtual void handshake_begins() = 0;
  /// The session is open, perhaps in another epoch, or it is another session.
  virtual void session_changed() = 0;
  /// The meta server has answered a keep-alive.
  virtual void heard() = 0;
  /// Ends what an earlier process of this session left undone.
  virtual job::Task<void> end_inheritance() = 0;
  /// Whether a lock on the file was lost with an earlier epoch.
  virtual bool lost_lock(Handle file) = 0;
};

/// Opened by the first request and kept alive by a task of its own while the executor is driven. When it ends, for
/// example because it expired, the next request opens a new epoch or another session. One executor. Life cycle:
/// construct -> observe() -> requests -> request_stop() -> stop() awaited -> destroyed.
class Session {
 public:
  Session(Options options, job::NetworkContext& network, Random& random);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Before the first request, once. Outlives the session.
  void observe(SessionObserver& observer) { observer_ = &observer; }
  /// Ends the keep-alives: no new session is opened by them.
  void request_stop() { stopping_.request_stop(); }
  /// Ends the session at the meta server (best effort, within `limits`), and waits for all tasks. After request_stop().
  job::Task<void> stop(Limits limits);

  /// A request to the meta server that only looks. Run again after a lost connection.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> ask(const Request& request, Limits limits, std::uint32_t reply_room = 16 * 1024) {
    Bytes body;
    wire::encode_body(request, body);
    auto raw = co_await send_query(Request::kOp, body, limits, reply_room);
    if (!raw) co_return std::move(raw).error();
    auto reply = wire::decode_body<Reply>(raw->body);
    co_return reply;
  }
  /// A request to the meta server that changes something: carries a request id, so that its resend is safe. Changes
  /// that are made at the same time may go together (ChangeBatcher).
  job::Task<Result<rpc::RawReply>> send_change(wire::Op op, ByteView body, Limits limits);

  /// The session is open when it ends: io servers ask for its ticket.
  job::Task<Result<void>> ensure_open(Limits limits);
  /// After kSessionFenced or kSessionUnknown in the epoch `ended`: makes a new handshake with the meta server, which
  /// gives a new one. Nothing is sent when there is a new one already. The io servers hear of it with the next request
  /// to each.
  job::Task<Result<void>> renew(Limits limits, rpc::SessionEpoch ended);
  /// Goes on with an earlier process's session, if there is one, before anybody asks for anything: others wait until
  /// the leases that the process had are given back.
  void resume();
  /// Whether it goes on with an earlier process's session.
  bool inherited() const { return inherited_; }
  /// Asks the meta server for the servers of targets that were added after this process has read its spate.toml.
  /// Returns at once when all are known. The deadline of `limits` applies; what fails may be tried again.
  job::Task<Result<void>> learn_targets(const Layout& layout, Limits limits);
  /// Asks for the cluster map, whatever is known.
  job::Task<Result<void>> learn_map(Limits limits);
  /// The same if the meta server has said, with any of its replies, that there is a newer cluster map.
  job::Task<Result<void>> learn_newer_map(Limits limits);

  /// For a new operation: the deadline of the options, a trace id of its own.
  Limits limits(job::StopToken stop = {});
  /// The operation that is begun next, in this turn, is part of the program's call `request_id`
  /// (client/session/handover_state.h).
  void next_request_id(std::uint64_t request_id) { next_request_id_ = request_id; }

  Servers& servers() { return servers_; }
  rpc::Channel& meta() { return servers_.meta(); }
  const Options& options() const { return options_; }
  const rpc::Identity& identity() const { return identity_; }
  /// What outlives this process; may be null.
  HandoverState* handover() const { return options_.handover; }
  job::Executor& executor() { return network_.executor(); }
  job::NetworkContext& network() { return network_; }
  /// The file system's clock, as well as this client knows it.
  WallTime fs_time() const;

 private:
  job::Task<Result<rpc::RawReply>> send_query(wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room);
  job::Task<Result<rpc::RawReply>> send_one_change(wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room);
  bool knows_newest_map() { return meta().map_version() <= servers_.map().version; }
  job::Task<Result<void>> fetch_map(Limits limits);
  job::Task<void> keep_alive();
  job::Task<Result<void>> handshake_with_meta(Limits limits);
  void inherit();
  void keep_for_next_process();
  job::Task<void> resume_now();
  job::Task<void> end_inheritance();
  std::int64_t wall_of_monotonic_ns() const;

  const Options options_;
  job::NetworkContext& network_;
  SeededRandom traces_;  // the random numbers of the process cost a system call each
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
  std::uint64_t next_request_id_ = 0;
};

}  // namespace spate::client
