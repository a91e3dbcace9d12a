// SPDX-License-Identifier: Apache-2.0
// LeaseManager: attribute leases of all sessions: grants and recalls them, and waits for their holders after a restart
// (docs/consistency.md, "Attribute leases").
#pragma once

#include <unordered_map>

#include "job/event.h"
#include "metrics/metrics.h"
#include "server/meta/core/core.h"
#include "server/meta/leases/lease_table.h"
#include "server/meta/session/recovery_markers.h"
#include "server/meta/session/session_events.h"

namespace spate::meta {

/// The leases are in memory. The store records only which sessions may have any. After a restart nothing is changed
/// until each of those sessions has learned of the restart, or its leases have expired. Recalls are sent through
/// SessionEvents. One executor; pinned. Life cycle: construct -> start() awaited -> operations.
class LeaseManager final : public Leases {
 public:
  LeaseManager(MetaCore& core, SessionEvents& events, metrics::Registry& metrics, LeaseLimits limits = {});

  /// Call it before anything is changed.
  job::Task<Result<void>> start();

  job::Task<Result<wire::LookupLeaseReply>> look_up(Operation& operation,
                                                    const wire::LookupLeaseRequest& request) override;
  job::Task<Result<wire::ListLeaseReply>> list(Operation& operation, const wire::ListLeaseRequest& request) override;
  job::Task<Result<void>> recall(Operation& operation) override;
  void begin_change(Handle object) override { table_.begin_change(object); }
  wire::Granted keep_changed(Operation& operation) override;
  void end_change(Handle object, bool removed) override;
  bool delegates() const override { return table_.delegated() > 0 || !delegators_.pending().empty(); }
  std::uint64_t ends_of_delegations() const override { return table_.ends(); }
  bool meets(const Operation& operation, Handle object, std::uint64_t ends) const override;
  job::Task<Result<void>> recall_met(Operation& operation) override;
  bool any_gathers() const override { return any_gathers_; }
  void heard(ClientId client, std::uint32_t epoch, bool knows_table) override;
  void acknowledged(ClientId client, std::uint32_t epoch, const wire::SessionEvent& event) override;
  std::vector<ClientId> noted() const override;
  job::Task<Result<void>> release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) override;

  const LeaseTable& table() const { return table_; }
  /// The duration of a lease, counted from the last time that its holder asked for events.
  Duration lease() const;
  std::uint32_t lease_ms() const;

 private:
  struct SessionLeases {
    std::uint32_t epoch = 0;
    bool recorded = false;   // the store has a marker of it
    bool delegates = false;  // and one that says that directories may be delegated to it
    MonoTime heard;          // when it last asked for events, or got a lease
  };
  /// A change waits for the holders of two kinds of leases: of all that it touches, and, of a file that it opens for
  /// reading, of those that may gather writes.
  struct Wait {
    std::optional<MonoTime> until;  // nothing: for nobody
    std::vector<std::pair<Handle, ClientId>> over;
    std::vector<ClientId> silent;
  };
  void look_at_holders(const Operation& operation, Handle object, bool only_gathering, Wait& wait);
  void note_gathering(const Operation& operation);
  void delegate(const Operation& operation, wire::Granted& granted);
  bool waits_for_delegators(const Operation& operation) const;
  bool is_kept(const Operation& operation, Handle object, const LeaseTable::Lease& lease) const;
  void end_delegators();
  std::optional<MonoTime> delegates_until(const Operation& operation);
  wire::Granted grant_changed(Operation& operation);
  job::Task<Result<bool>> prepare(const rpc::Call& call);
  bool may_be_granted(const Operation& operation) const;
  void note_granted(const LeaseHolder& holder);
  void grant_listed(wire::ListLeaseReply& reply, Handle directory, const LeaseHolder& holder, LeaseTable::Stamp stamp);
  bool may_keep(const Operation& operation) const;
  void recall_one(Handle object, ClientId client, LeaseTable::Lease& lease);
  void recall_surplus();
  /// Recalls other sessions' leases on what the operation changes. Yields their latest expiry; nothing if none is left.
  std::optional<MonoTime> others_until(const Operation& operation);
  void tell_held() { held_.set(static_cast<std::int64_t>(table_.size())); }
  bool is_in_grace(const Operation& operation);
  job::Task<Result<void>> wait_for_others(Operation& operation);
  job::Task<Result<void>> wait_until(MonoTime when, job::StopToken stop);
  void tell_waiting();

  MetaCore& core_;
  SessionEvents& events_;
  RecoveryMarkers markers_;
  RecoveryMarkers delegators_;  // sessions that may have had delegations before the restart
  LeaseTable table_;
  bool any_gathers_ = false;  // since the process began
  MonoTime grace_end_;
  MonoTime patience_end_;  // then sessions with delegations must have heard of the restart
  std::unordered_map<ClientId, SessionLeases> sessions_;
  job::Event answered_;  // a session has dropped its copies, or has ended
  metrics::Counter granted_;
  metrics::Counter recalls_;
  metrics::Counter given_back_;  // recalled leases that their holders acknowledged
  metrics::Counter run_out_;     // leases whose expiry a change had to wait for
  metrics::Gauge held_;
  metrics::Histogram waits_;  // how long changes waited for the end of other sessions' leases
};

}  // namespace spate::meta
