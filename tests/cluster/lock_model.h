// SPDX-License-Identifier: Apache-2.0
// LockModel: who certainly holds which locks: nobody else may get what conflicts with them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/ids.h"
#include "wire/lock_messages.h"

namespace spate::cluster {

/// Whose a lock is: of one epoch of a client's session.
struct LockClaim {
  int client = 0;
  ClientId session;
  std::uint32_t epoch = 0;
  LockKind kind = LockKind::kProcess;
  std::uint64_t number = 0;
  friend bool operator==(const LockClaim&, const LockClaim&) = default;
};

/// A lock is certain from its answer until its release begins, or its holder's session has ended at the server. The
/// model assigns an uncertain lock to nobody: so it may miss a fault, but never reports one that is none.
class LockModel {
 public:
  /// Whether that claim's session has not ended, by the meta server's records, and its client has not heard that its
  /// locks are lost.
  using StillHeld = std::function<bool(std::uint64_t handle, const LockClaim& claim)>;
  explicit LockModel(StillHeld still_held) : still_held_(std::move(still_held)) {}

  /// The owner asks for another mode of that range: what it had there is not certain any more.
  void begin(const LockClaim& claim, const wire::LockSpec& lock);
  /// It has it. Empty unless that cannot be.
  std::string granted(const LockClaim& claim, const wire::LockSpec& lock, MonoTime now);
  /// A test that was begun at `begun` has found nobody in the way. Empty unless that cannot be.
  std::string found_free(const LockClaim& claim, const wire::LockSpec& lock, MonoTime begun) const;
  /// The claim is certainly good still.
  bool certain(std::uint64_t handle, const LockClaim& claim) const { return still_held_(handle, claim); }
  /// Its session is being ended in order.
  void leaves(int client);
  std::uint64_t grants() const { return grants_; }

 private:
  struct Hold {
    LockClaim claim;
    LockRanges ranges;
    MonoTime since;  // the last grant
  };
  const Hold* in_the_way(const LockClaim& claim, const wire::LockSpec& lock, MonoTime since_before) const;

  StillHeld still_held_;
  std::map<std::uint64_t, std::vector<Hold>> holds_;  // by file
  std::uint64_t grants_ = 0;
};

}  // namespace spate::cluster
