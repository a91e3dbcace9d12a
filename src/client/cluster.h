// SPDX-License-Identifier: Apache-2.0
// Cluster: the state that all open files and calls of one client share.
#pragma once

#include <memory>

#include "client/attributes/attribute_cache.h"
#include "client/attributes/change_plan.h"
#include "client/bypass/leased_file.h"
#include "client/cached_opens.h"
#include "client/data/unsynced.h"
#include "client/gathered_writes.h"
#include "client/locks/appends.h"
#include "client/locks/locks.h"
#include "client/queued_changes.h"
#include "client/read_times.h"
#include "client/session/event_listener.h"
#include "client/session/session.h"

namespace spate::client {

/// The session and what belongs to it: events, locks, rights to append, attributes under leases, and unsynced writes.
/// The parts know each other through references, so the order of the members is the order of their construction.
///
/// Life cycle: construct -> requests -> stop() awaited -> destroyed. Every File refers to the cluster, so Files are
/// destroyed before it. One executor. Not movable.
class Cluster final : private SessionObserver {
 public:
  /// `network` and `random` outlive the cluster. With a handover state of an earlier process, takes over its session
  /// and locks; the session's first handshake follows with the first request or Session::resume().
  Cluster(Options options, job::NetworkContext& network, Random& random);
  ~Cluster() override;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Ends all waits, the closes in flight, and the session at the meta server (best effort, within `limits`).
  job::Task<void> stop(Limits limits);

  /// Sends a request that changes something to the meta server. Once the change is answered, to this client or to
  /// another, the attribute cache holds nothing older than the change.
  template <typename Request>
  job::Task<Result<wire::ReplyOf<Request>>> change(const Request& request, Limits limits) {
    Bytes body;
    wire::encode_body(request, body);
    const ChangePlan plan = plan_of(request);
    SPATE_CO_TRY(auto raw, co_await change_meta(Request::kOp, body, limits, plan));
    auto reply = wire::decode_body<wire::ReplyOf<Request>>(raw.body);
    co_return reply;
  }

  /// Ends an open of a file that was opened in the epoch `opened_in` of the session. Even if the call fails because of
  /// `limits`, this object repeats the request until the server answers, or until the open has ended with its session.
  /// So no file stays open for long. kSessionFenced, kSessionUnknown: the open has already ended with its session.
  /// kBadDescriptor: the server knows no such open. `on_ended`, if not empty, is called when nothing is left open,
  /// perhaps after the call has failed. It is not called if the client is stopped before. If `request` has more than
  /// one open, the meta server must have agreed on the feature closes.
  job::Task<Result<wire::CloseReply>> close(wire::CloseWritersRequest request, rpc::SessionEpoch opened_in,
                                            Limits limits, UniqueFunction<void()> on_ended = {});

  Session& session() { return session_; }
  const Options& options() const { return session_.options(); }
  job::Executor& executor() { return session_.executor(); }
  LeasedFiles& leased_files() { return options().leased_files != nullptr ? *options().leased_files : kernel_files_; }
  EventListener& events() { return events_; }
  Locks& locks() { return locks_; }
  Appends& appends() { return appends_; }
  UnsyncedFiles& unsynced() { return unsynced_; }
  AttributeCache& attributes() { return attributes_; }
  const AttributeCache& attributes() const { return attributes_; }
  ReadTimes& reads() { return reads_; }
  CachedOpens& cached_opens() { return cached_opens_; }
  GatheredWrites& gathered() { return gathered_; }
  const GatheredWrites& gathered() const { return gathered_; }
  QueuedChanges& queued() { return queued_; }
  const QueuedChanges& queued() const { return queued_; }

 private:
  void handshake_begins() override {
    attributes_.clear();
    cached_opens_.distrust_all();
  }
  /// The server may have lost the changes that this client's cache shows.
  void meta_restarted() override { attributes_.clear(); }
  void session_changed() override;
  void heard() override;
  bool must_follow(wire::Op op, ByteView body) override;
  job::Task<Result<void>> send_queued(Limits limits) override;
  job::Task<void> end_inheritance() override;
  bool lost_lock(Handle file) override { return locks_.lost(file); }

  job::Task<Result<rpc::RawReply>> change_meta(wire::Op op, ByteView body, Limits limits, const ChangePlan& plan);
  struct Closing;
  job::Task<void> close_for_sure(wire::CloseWritersRequest request, Limits limits, std::shared_ptr<Closing> closing);

  Session session_;
  KernelLeasedFiles kernel_files_;
  AttributeCache attributes_;
  QueuedChanges queued_;
  GatheredWrites gathered_;
  EventListener events_;
  Locks locks_;
  Appends appends_;
  UnsyncedFiles unsynced_;
  ReadTimes reads_;
  CachedOpens cached_opens_;
  job::Gate closes_;
  job::StopSource stopping_;
};

}  // namespace spate::client
