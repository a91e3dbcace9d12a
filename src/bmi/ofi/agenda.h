// SPDX-License-Identifier: Apache-2.0
// Agenda: the work of the ofi module that no completion announces.
#pragma once

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/ofi/peer.h"

namespace spate::bmi::ofi {

/// Peers with more work, and the time of the next look at all peers. It wakes a thread that sleeps while another one
/// leaves it something to do. The module's lock guards it.
class Agenda {
 public:
  explicit Agenda(const Clock& clock) : clock_(clock) {}

  /// False, with errno: out of descriptors.
  bool open();
  int wake_descriptor() const { return wake_.get(); }
  void wake();
  // A thread may be asleep on the descriptor; one is in the module.
  void sleep_follows() { sleeping_ = true; }
  void awake();

  /// The peer has more work: it is among the next turn's.
  void keep_turning(Peer& peer);
  void forget(Peer& peer);
  bool any_turning() const { return !turning_.empty(); }
  /// Takes those of this turn. `turn(peer)` may add them again.
  template <typename Turn>
  void take_turning(Turn turn) {
    now_.swap(turning_);
    for (Peer* peer : now_) peer->turning = false;
    for (Peer* peer : now_) turn(*peer);
    now_.clear();
  }

  /// When to look at all peers; never() if there is nothing to be seen.
  MonoTime next_sweep() const { return next_sweep_; }
  void sweep_at(MonoTime when) { next_sweep_ = when; }
  void sweep_soon() {
    next_sweep_ = MonoTime();
    wake();
  }
  /// Routes part: their last words leave within `patience`, or not at all.
  void begin_parting(Duration patience);
  /// Until when they may; never(): none parts.
  MonoTime parted_by() const { return parted_by_; }
  void all_parted() { parted_by_ = MonoTime::never(); }

 private:
  const Clock& clock_;
  UniqueFd wake_;
  bool sleeping_ = false;  // somebody may be asleep on the descriptor
  bool woken_ = false;     // wake_ is readable
  std::vector<Peer*> turning_;
  std::vector<Peer*> now_;  // scratch
  MonoTime next_sweep_ = MonoTime::never();
  MonoTime parted_by_ = MonoTime::never();
};

}  // namespace spate::bmi::ofi
