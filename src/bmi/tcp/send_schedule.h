// SPDX-License-Identifier: Apache-2.0
// SendSchedule: decides when the queued frames of the tcp module's connections are written.
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

/// Life cycle: constructed -> begin_turn() and end_turn() around each turn, begin_post() and end_post() around each
/// call that may post -> destroyed. The module's lock guards it, except hold() and holds_any(). Nothing blocks. A peer
/// whose socket or file fails is lost later (State::lose_later), never within a call.
///
/// Frames leave at once, with two exceptions: a caller may hold what it posts (Module::hold_sends), and bulk data waits
/// for its slice in a turn, after the first message between two turns.
class SendSchedule {
 public:
  SendSchedule(State& state, Connections& connections, BulkSlices& slices)
      : state_(state), connections_(connections), slices_(slices), scratch_(std::make_unique<SendScratch>()) {}

  // The module is inside a call that may post. end_post() tells whether a turn is due, so that a caller which posts
  // many sends need not finish before the first ones leave.
  void begin_post() { posting_ = true; }
  bool end_post(bool send);
  // The module is inside a turn, which serves a slice at its end.
  void begin_turn();
  void end_turn() { in_turn_ = false; }

  /// The connection has something to write.
  void flush(Connection& connection);
  /// Writes up to `limit` bytes now, as far as the socket takes them. Returns how many it wrote.
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
  std::vector<Connection*> held_;      // connections to be flushed, each one once
  std::atomic<bool> holding_{false};   // posts put their connections into held_ instead of flushing them
  std::atomic<bool> held_any_{false};  // held_ is not empty
  std::uint64_t turn_ = 1;             // counts turns
  int posts_in_turn_ = 0;              // sends that were posted since the last turn
  bool in_turn_ = false;
  bool posting_ = false;
};

}  // namespace spate::bmi::tcp
