// SPDX-License-Identifier: Apache-2.0
// Closes idle connections, on the side that made them (NetworkOptions::idle_close_ms). The other side never does, since
// a request may be in flight.
#include "bmi/tcp/engine.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::tcp {
namespace {

/// Sweeps in an idle time: a peer is given up when so many in a row have found it at rest.
constexpr unsigned kSweeps = 2;

}  // namespace

void Engine::begin_sweeps() {
  if (state_.options->idle_close_ms == 0 || next_sweep_ != MonoTime::never()) return;
  next_sweep_ = clock_.now() + Duration(std::chrono::milliseconds(state_.options->idle_close_ms)) / kSweeps;
  arm_timer();
}

bool Engine::sweep_idle() {
  if (clock_.now() < next_sweep_) return false;
  bool connected = false;
  for (const auto& [id, peer] : peers_.all()) {
    if (!peer->outbound || peer->state != PeerPhase::kUp) continue;
    const std::uint64_t traffic = peer->traffic();
    const bool idle = peer->at_rest() && traffic == peer->traffic_at_sweep;
    peer->traffic_at_sweep = traffic;
    peer->idle_sweeps = idle ? peer->idle_sweeps + 1 : 0;
    if (peer->idle_sweeps < kSweeps) {
      connected = true;
      continue;
    }
    peer->idle_sweeps = 0;
    ++counters_.connections_idle;
    SPATE_LOG("bmi/tcp", debug, "idle connection closed peer={}", log::Quoted{peer->url});
    lose_peer(*peer, Errc::kOk);
  }
  next_sweep_ = MonoTime::never();
  if (connected) begin_sweeps();
  return true;
}

}  // namespace spate::bmi::tcp
