// SPDX-License-Identifier: Apache-2.0
// PendingPeers: the work of the ofi module that no completion announces.
#pragma once

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {

/// Life cycle: construct -> open() -> other calls -> destroyed. The module's lock guards it. It holds the peers that
/// have more work, and the time of the next look at all peers. It wakes a sleeping thread when another thread leaves
/// work for it.
class PendingPeers {
 public:
  explicit PendingPeers(const Clock& clock) : clock_(clock) {}

  /// False, with errno: out of descriptors.
  bool open();
  int wake_descriptor() const { return wake_.get(); }
  void wake();
  // sleep_follows(): a thread may sleep on the descriptor from now on. awake(): a thread is inside the module.
  void sleep_follows() { sleeping_ = true; }
  void awake();

  /// Adds the peer, which has more work, to those of the next turn.
  void keep_turning(Peer& peer);
  void forget(Peer& peer);
  bool any_turning() const { return !turning_.empty(); }
  /// Takes the peers of this turn and calls `turn(peer)` for each, which may add the peer again.
  template <typename Turn>
  void take_turning(Turn turn) {
    now_.swap(turning_);
    for (Peer* peer : now_) peer->turning = false;
    for (Peer* peer : now_) turn(*peer);
    now_.clear();
  }

  /// When to look at all peers; never() if no peer needs it.
  MonoTime next_sweep() const { return next_sweep_; }
  void sweep_at(MonoTime when) { next_sweep_ = when; }
  void sweep_soon() {
    next_sweep_ = MonoTime();
    wake();
  }
  /// Closed routes may still send their last packets, for at most `timeout`.
  void begin_parting(Duration timeout);
  /// When that time ends; never(): no closed route has a packet to send.
  MonoTime parted_by() const { return parted_by_; }
  void all_parted() { parted_by_ = MonoTime::never(); }

 private:
  const Clock& clock_;
  UniqueFd wake_;
  bool sleeping_ = false;  // a thread may be asleep on the descriptor
  bool woken_ = false;     // wake_ is readable
  std::vector<Peer*> turning_;
  std::vector<Peer*> now_;  // scratch
  MonoTime next_sweep_ = MonoTime::never();
  MonoTime parted_by_ = MonoTime::never();
};

}  // namespace spate::bmi::ofi
