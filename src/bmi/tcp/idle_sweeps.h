// SPDX-License-Identifier: Apache-2.0
// IdleSweeps: closes idle connections, on the side that made them (NetworkOptions::idle_close_ms). The other side never
// does, since a request may be in flight.
#pragma once

#include "base/clock.h"
#include "bmi/protocol/wake_timer.h"
#include "bmi/tcp/connections.h"
#include "bmi/tcp/state.h"

namespace spate::bmi::tcp {

/// The module's lock guards it. Life cycle: begin() at the first connection -> sweep() again and again.
class IdleSweeps {
 public:
  IdleSweeps(State& state, Connections& connections, protocol::WakeTimer& timer)
      : state_(state), connections_(connections), timer_(timer) {}

  /// This side has made a connection, so sweeps begin.
  void begin();
  /// When the next sweep is due; never(): there is nothing to look at.
  MonoTime next() const { return next_; }
  /// Looks at all peers if a sweep is due. False: it is not.
  bool sweep();

 private:
  State& state_;
  Connections& connections_;
  protocol::WakeTimer& timer_;
  MonoTime next_ = MonoTime::never();
};

}  // namespace spate::bmi::tcp
