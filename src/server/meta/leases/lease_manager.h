// SPDX-License-Identifier: Apache-2.0
// LeaseManager: attribute leases of all sessions: grants, recalls, and waits after a restart (docs/consistency.md,
// "Attribute leases").
#pragma once

#include <unordered_map>

#include "job/event.h"
#include "metrics/metrics.h"
#include "server/meta/core/core.h"
#include "server/meta/leases/lease_table.h"
#include "server/meta/session/holder_notes.h"
#include "server/meta/session/session_events.h"

namespace spate::meta {

/// The leases are in memory. The store notes only which sessions may have any. After a restart no change is made before
/// each of those sessions has heard of the restart, or its leases have run out. Recalls are sent through SessionEvents.
/// One executor; pinned. Life: construct -> start() -> operations.
class LeaseManager final : public Leases {
 public:
  LeaseManager(MetaCore& core, SessionEvents& events, metrics::Registry& metrics, LeaseLimits limits = {});

  /// Before anything is changed.
  job::Task<Result<void>> start();

  job::Task<Result<wire::LookupLeaseReply>> look_up(Operation& operation,
                                                    const wire::LookupLeaseRequest& request) override;
  job::Task<Result<wire::ListLeaseReply>> list(Operation& operation, const wire::ListLeaseRequest& request) override;
  job::Task<Result<void>> recall(Operation& operation) override;
  void begin_change(Handle object) override { table_.begin_change(object); }
  wire::Granted keep_changed(Operation& operation) override;
  void end_change(Handle object, bool removed) override;
  void heard(ClientId client, std::uint32_t epoch, bool knows_table) override;
  void acknowledged(ClientId client, std::uint32_t epoch, const wire::LockEvent& event) override;
  std::vector<ClientId> noted() const override;
  job::Task<Result<void>> release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) override;

  const LeaseTable& table() const { return table_; }
  /// How long a lease lasts from when its holder last asked for events.
  Duration lease() const;
  std::uint32_t lease_ms() const;

 private:
  struct SessionLeases {
    std::uint32_t epoch = 0;
    bool recorded = false;  // in the store
    MonoTime heard;         // it asked for events, or got a lease
  };
  job::Task<Result<bool>> prepare(const rpc::Call& call);
  bool may_be_granted(const Operation& operation) const;
  void note_granted(const LeaseHolder& holder);
  void grant_listed(wire::ListLeaseReply& reply, Handle directory, const LeaseHolder& holder, LeaseTable::Stamp stamp);
  bool may_keep(const Operation& operation) const;
  void recall_one(Handle object, ClientId client, LeaseTable::Lease& lease);
  void recall_surplus();
  /// The time at which the last lease of others on what the operation changes ends at the latest. Nothing when there is
  /// none.
  std::optional<MonoTime> others_until(const Operation& operation);
  void tell_held() { held_.set(static_cast<std::int64_t>(table_.size())); }
  bool in_grace(ClientId own);
  job::Task<Result<void>> wait_for_others(Operation& operation);
  job::Task<Result<void>> wait_until(MonoTime when, job::StopToken stop);
  void tell_waiting();

  MetaCore& core_;
  SessionEvents& events_;
  HolderNotes notes_;
  LeaseTable table_;
  MonoTime grace_end_;
  std::unordered_map<ClientId, SessionLeases> sessions_;
  job::Event answered_;  // a session has dropped what it kept, or has ended
  metrics::Counter granted_;
  metrics::Counter recalls_;
  metrics::Counter given_back_;  // recalled ones that their holders have dropped and said so
  metrics::Counter run_out_;     // that a change has waited for
  metrics::Gauge held_;
  metrics::Histogram waits_;  // of changes, for leases of others
};

}  // namespace spate::meta
