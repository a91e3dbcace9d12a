// SPDX-License-Identifier: Apache-2.0
// Cluster: a client's session and its channels to all servers of one file system.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/random.h"
#include "client/attributes/attribute_cache.h"
#include "client/bypass/lent_file.h"
#include "client/bypass/offload.h"
#include "client/data/unsynced.h"
#include "client/locks/appends.h"
#include "client/locks/locks.h"
#include "client/options.h"
#include "client/session/limits.h"
#include "client/session/request_slots.h"
#include "job/gate.h"
#include "job/network.h"
#include "job/semaphore.h"
#include "rpc/channel.h"
#include "rpc/wait_watch.h"

namespace spate::client {

/// One executor; pinned. Life cycle: construct -> (requests) -> stop() awaited -> destroyed. The session is opened by
/// the first request and kept alive by a task of its own while the executor is driven.
class Cluster {
 public:
  Cluster(Options options, job::NetworkContext& network, Random& random);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Ends the session at the meta server (best effort, within `limits`) and all background tasks.
  job::Task<void> stop(Limits limits);

  /// A request to the meta server that only looks. Run again after a lost connection.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> ask(const Request& request, Limits limits, std::uint32_t reply_room = 16 * 1024) {
    Bytes body;
    wire::encode_body(request, body);
    auto raw = co_await ask_meta(Request::kOp, body, limits, reply_room);
    if (!raw) co_return std::move(raw).error();
    auto reply = wire::decode_body<Reply>(raw->body);
    co_return reply;
  }
  /// A request to the meta server that changes something: carries a request id, so that its resend is safe.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> change(const Request& request, Limits limits) {
    Bytes body;
    wire::encode_body(request, body);
    const ChangePlan plan = plan_of(request);
    auto raw = co_await change_meta(Request::kOp, body, limits, plan);
    if (!raw) co_return std::move(raw).error();
    auto reply = wire::decode_body<Reply>(raw->body);
    co_return reply;
  }

  /// Ends an open of a file that was opened in that epoch of the session. It goes on until it is answered, or with it
  /// the open has ended with its session, also when this fails with `limits`: nothing is left open then for long.
  /// kSessionFenced: it has ended with its session already. `on_ended`, if any, is called when nothing is left open:
  /// perhaps after this has failed, and not at all if the client is stopped before.
  job::Task<Result<wire::CloseReply>> close(wire::CloseRequest request, rpc::SessionEpoch opened_in, Limits limits,
                                            UniqueFunction<void()> on_ended = {});

  /// Whether this process knows the servers of all targets of a layout.
  bool knows_targets(const Layout& layout) const;
  /// Asks the meta server for the servers of targets that were added after this process has read its spate.toml.
  /// Returns at once when all are known. The deadline of `limits` applies; what fails may be tried again.
  job::Task<Result<void>> learn_targets(const Layout& layout, Limits limits);
  /// The channel to the server that holds a target; kStaleMap when the map names none: see learn_targets().
  Result<rpc::Channel*> io_channel(TargetId target);
  /// The session is open when it ends: io servers ask for its ticket.
  job::Task<Result<void>> ensure_session(Limits limits);
  /// Goes on with an earlier process's session, if there is one, before anybody asks for anything: others wait until
  /// the leases that the process had are given back.
  void resume();
  /// After kSessionFenced or kSessionUnknown in the epoch `ended`: greets the meta server again, which gives a new one.
  /// Nothing is sent when there is a new one already. The io servers hear of it with the next request to each.
  job::Task<Result<void>> renew_session(Limits limits, rpc::SessionEpoch ended);

  /// Ends when all copies are gone that were to be dropped before (client/attributes/copies.h). That waits for nobody
  /// but the thread that drops them. The token's reason when stopped first.
  job::Task<Result<void>> copies_dropped(job::StopToken stop);

  /// For a new operation: the deadline of the options, a trace id of its own.
  Limits limits(job::StopToken stop = {});
  /// The operation that is begun next, in this turn, is part of the program's call `request_id`
  /// (client/session/handover_state.h).
  void next_request_id(std::uint64_t request_id) { next_request_id_ = request_id; }
  /// What outlives this process; may be null.
  HandoverState* handover() const { return options_.handover; }
  job::Executor& executor() { return network_.executor(); }
  job::NetworkContext& network() { return network_; }
  LentFiles& lent_files() { return options_.lent_files != nullptr ? *options_.lent_files : kernel_files_; }
  const Options& options() const { return options_; }
  const rpc::Identity& identity() const { return identity_; }
  /// The file system's clock, as well as this client knows it.
  WallTime fs_time() const;
  std::int64_t wall_of_monotonic_ns() const;
  rpc::Channel& meta() { return *meta_; }
  Locks& locks() { return locks_; }
  Appends& appends() { return appends_; }
  UnsyncedFiles& unsynced() { return unsynced_; }
  AttributeCache& attributes() { return attributes_; }
  const AttributeCache& attributes() const { return attributes_; }
  /// Whether any server was seen to restart: else no write is lost. Thread-safe.
  bool any_restarted() const;
  /// The servers that keep calls waiting for at least `least`.
  std::vector<rpc::ServerWait> waits(Duration least) const;
  /// For other channels of this process; null: nobody wants to be told.
  rpc::WaitWatch* watch() { return watch_ ? &*watch_ : nullptr; }
  /// All io servers' channels, by server id.
  const std::map<ServerId, std::unique_ptr<rpc::Channel>>& channels() const { return channels_; }

 private:
  job::Task<Result<rpc::RawReply>> ask_meta(wire::Op op, ByteView body, Limits limits, std::uint32_t reply_room);
  job::Task<Result<rpc::RawReply>> change_meta(wire::Op op, ByteView body, Limits limits, const ChangePlan& plan);
  job::Task<Result<rpc::RawReply>> send_change(wire::Op op, ByteView body, Limits limits);
  struct Closing;
  job::Task<void> close_for_sure(wire::CloseRequest request, Limits limits, std::shared_ptr<Closing> closing);
  job::Task<void> keep_alive();
  void inherit_session();
  void keep_session();
  job::Task<Result<void>> greet_meta(Limits limits);
  job::Task<void> resume_session();
  job::Task<void> end_inheritance();
  std::unique_ptr<rpc::Channel> make_channel(const ServerEntry& server);

  Options options_;
  job::NetworkContext& network_;
  Random& random_;
  SeededRandom traces_;  // random_ costs a system call a number
  rpc::Identity identity_;
  RequestSlots slots_;
  std::optional<rpc::WaitWatch> watch_;  // if anybody wants to be told
  // Grows on the executor's thread only, under the mutex; other threads look under it.
  std::map<ServerId, std::unique_ptr<rpc::Channel>> channels_;
  mutable std::mutex channels_mutex_;
  job::Semaphore map_turn_;  // one request for the cluster map at a time
  rpc::Channel* meta_ = nullptr;
  Offload offload_;  // for what may wait for a device
  KernelLentFiles kernel_files_;
  AttributeCache attributes_;
  Locks locks_;
  Appends appends_;
  UnsyncedFiles unsynced_;
  job::Gate gate_;
  job::StopSource stopping_;
  bool keeping_alive_ = false;
  std::uint64_t next_request_id_ = 0;
};

}  // namespace spate::client
