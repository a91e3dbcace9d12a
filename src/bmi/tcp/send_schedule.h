// SPDX-License-Identifier: Apache-2.0
// SendSchedule: when the queued frames of the tcp module's connections are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bmi/tcp/bulk_slices.h"
#include "bmi/tcp/connections.h"
#include "bmi/tcp/state.h"

namespace spate::bmi::tcp {

/// Frames leave at once, except that a caller may hold what it posts (Module::hold_sends), and that bulk data waits for
/// its slice in a turn and after the first message between two turns. The module's lock guards it, except hold() and
/// holds_any().
class SendSchedule {
 public:
  SendSchedule(State& state, Connections& connections, BulkSlices& slices)
      : state_(state), connections_(connections), slices_(slices), scratch_(std::make_unique<SendScratch>()) {}

  // The module is inside a call that may post. Ends by telling whether a turn is due: a caller that posts many sends
  // need not finish posting before the first ones leave.
  void begin_post() { posting_ = true; }
  bool end_post(bool send);
  // The module is inside a turn, at whose end the slice is served.
  void begin_turn();
  void end_turn() { in_turn_ = false; }

  /// The connection has something to write.
  void flush(Connection& connection);
  /// Writes up to `limit` bytes now, as far as the socket accepts them. Returns how many.
  std::uint64_t write(Connection& connection, std::uint64_t limit);

  /// Posts from now on are held until flush_held().
  void hold() { holding_.store(true, std::memory_order_relaxed); }
  bool holds_any() const { return held_any_.load(std::memory_order_relaxed); }
  void flush_held();

 private:
  bool gathers(Connection& connection) const;

  State& state_;
  Connections& connections_;
  BulkSlices& slices_;
  std::unique_ptr<SendScratch> scratch_;
  std::vector<Connection*> held_;      // to be flushed: each connection once
  std::atomic<bool> holding_{false};   // posts leave flushing to held_
  std::atomic<bool> held_any_{false};  // held_ is not empty
  std::uint64_t turn_ = 1;             // counts turns
  int posts_in_turn_ = 0;              // sends, since the last one
  bool in_turn_ = false;
  bool posting_ = false;
};

}  // namespace spate::bmi::tcp
