// SPDX-License-Identifier: Apache-2.0
// LockModel: the locks that clients certainly hold. No other client may get a conflicting lock.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/ids.h"
#include "wire/lock_messages.h"

namespace spate::cluster {

/// The owner of a lock, in one epoch of a client's session.
struct LockClaim {
  int client = 0;
  ClientId session;
  std::uint32_t epoch = 0;
  LockKind kind = LockKind::kProcess;
  std::uint64_t number = 0;
  friend bool operator==(const LockClaim&, const LockClaim&) = default;
};

/// A lock is certain from its answer until its release begins or its session has ended at the server. The model ignores
/// uncertain locks. So it may miss an error, but never reports a false one.
class LockModel {
 public:
  /// Whether the claim's session has not ended by the meta server's records, and its client has not learnt that its
  /// locks are lost.
  using StillHeld = std::function<bool(std::uint64_t handle, const LockClaim& claim)>;
  explicit LockModel(StillHeld still_held) : still_held_(std::move(still_held)) {}

  /// The owner requests a new mode for the range, so its earlier lock there is no longer certain.
  void begin(const LockClaim& claim, const wire::LockSpec& lock);
  /// The request was granted. Returns the conflict with a certain lock; empty: none.
  std::string granted(const LockClaim& claim, const wire::LockSpec& lock, MonoTime now);
  /// A test begun at `begun` found no conflicting lock. Returns the certain lock that conflicts; empty: none.
  std::string found_free(const LockClaim& claim, const wire::LockSpec& lock, MonoTime begun) const;
  /// Whether the claim is still certain.
  bool certain(std::uint64_t handle, const LockClaim& claim) const { return still_held_(handle, claim); }
  /// The client ends its session in order.
  void leaves(int client);
  std::uint64_t grants() const { return grants_; }

 private:
  struct Hold {
    LockClaim claim;
    LockRanges ranges;
    MonoTime since;  // when a lock was last granted to the claim
  };
  const Hold* in_the_way(const LockClaim& claim, const wire::LockSpec& lock, MonoTime since_before) const;

  StillHeld still_held_;
  std::map<std::uint64_t, std::vector<Hold>> holds_;  // by the file's handle
  std::uint64_t grants_ = 0;
};

}  // namespace spate::cluster
