// SPDX-License-Identifier: Apache-2.0
// ShmCounters: what a shm module counts.
#pragma once

#include <cstdint>

namespace spate::bmi::shm {

/// No counter ever decreases.
struct ShmCounters {
  std::uint64_t protocol_errors = 0;   // peers dropped for what they sent, authenticated or not
  std::uint64_t dropped_messages = 0;  // payloads that came for a receive that was gone
  std::uint64_t connections_lost = 0;
  std::uint64_t refused = 0;                  // handshakes that failed, came too late, or were not admitted
  std::uint64_t unauthenticated_dropped = 0;  // not admitted in time, or too many (NetworkOptions::unauthenticated)
  std::uint64_t located_bytes = 0;            // received with one copy, from the sender's own memory
  std::uint64_t lane_bytes = 0;               // received with two copies, through a lane
  std::uint64_t sent_at_once = 0;             // messages that left in their post, without an operation
  std::uint64_t aborted = 0;                  // messages that were cut short by their sender
  std::uint64_t dropped_descriptors = 0;      // passed by a peer beyond what is kept for it
};

}  // namespace spate::bmi::shm
