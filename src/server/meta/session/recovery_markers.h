// SPDX-License-Identifier: Apache-2.0
// RecoveryMarkers: records in the store which sessions may hold locks or leases. Those are only in memory; a restart
// reads the markers.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "server/meta/core/core.h"

namespace spate::meta {

/// The subject of the markers, and their place in the store.
struct MarkerKind {
  const char* name;  // for messages: "lock", "lease"
  StoreKey (*key)(ClientId);
  trove::KeyRange (*all)();
  std::optional<ClientId> (*parse)(ByteView);
};

/// Locks and attribute leases are in memory. A session that may have any has a marker in the store, with the epoch in
/// which it got them. After a restart the sessions with markers are pending: others wait until each of them has
/// reclaimed what it holds, has dropped it, or has ended.
///
/// One executor; pinned. Life cycle: construct -> load() -> the other calls.
class RecoveryMarkers {
 public:
  RecoveryMarkers(MetaCore& core, MarkerKind kind) : core_(core), kind_(kind) {}
  RecoveryMarkers(const RecoveryMarkers&) = delete;
  RecoveryMarkers& operator=(const RecoveryMarkers&) = delete;

  /// Reads the markers that an earlier process left: their sessions are pending. A marker that cannot be read counts
  /// for epoch 0.
  job::Task<Result<void>> load();
  /// Stores the marker, durable on the machine, before the session gets its first lock or lease. kSessionUnknown,
  /// kSessionFenced: the session has ended, so it gets no marker.
  job::Task<Result<void>> record(ClientId client, std::uint32_t epoch, job::StopToken stop);
  /// The client's epochs below this one have ended: they are no longer pending.
  void forget(ClientId client, std::uint32_t below_epoch);
  /// Call it after forget(). Erases their marker. Repeatable.
  job::Task<Result<void>> remove(ClientId client, std::uint32_t below_epoch, job::StopToken stop);

  /// The pending sessions and the epochs of their markers. The caller erases those that it need not wait for.
  std::map<ClientId, std::uint32_t>& pending() { return pending_; }
  const std::map<ClientId, std::uint32_t>& pending() const { return pending_; }
  std::vector<ClientId> pending_clients() const;

 private:
  job::Task<Result<void>> put(Operation& operation, ClientId client, std::uint32_t epoch);
  job::Task<Result<void>> erase(Operation& operation, ClientId client, std::uint32_t below_epoch);
  Result<void> take(const trove::KeyValue& entry);

  MetaCore& core_;
  const MarkerKind kind_;
  std::map<ClientId, std::uint32_t> pending_;
};

}  // namespace spate::meta
