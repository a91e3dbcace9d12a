// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/idle_sweeps.h"

#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::tcp {
namespace {

/// The number of sweeps in idle_close_ms. A peer is disconnected when this many sweeps in a row found it idle.
constexpr unsigned kSweeps = 2;

}  // namespace

void IdleSweeps::begin() {
  const std::uint32_t idle_ms = state_.options->idle_close_ms;
  if (idle_ms == 0 || next_ != MonoTime::never()) return;
  next_ = state_.clock.now() + Duration(std::chrono::milliseconds(idle_ms)) / kSweeps;
  timer_.arm(next_);
}

bool IdleSweeps::sweep() {
  if (state_.clock.now() < next_) return false;
  bool connected = false;
  for (const auto& [id, peer] : state_.peers.all()) {
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
    ++state_.tcp_counters.connections_idle;
    SPATE_LOG("bmi/tcp", debug, "idle connection closed peer={}", log::Quoted{peer->url});
    connections_.lose_peer(*peer, Errc::kOk);
  }
  next_ = MonoTime::never();
  if (connected) begin();
  return true;
}

}  // namespace spate::bmi::tcp
