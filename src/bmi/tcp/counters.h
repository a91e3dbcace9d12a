// SPDX-License-Identifier: Apache-2.0
// TcpCounters: what a tcp module counts.
#pragma once

#include <cstdint>

namespace spate::bmi::tcp {

/// What a module counts; all grow only.
struct TcpCounters {
  std::uint64_t protocol_errors = 0;   // peers and strangers dropped for what they sent
  std::uint64_t dropped_messages = 0;  // payloads that came for a receive that was gone
  std::uint64_t connections_lost = 0;
  std::uint64_t refused = 0;  // handshakes that failed or came too late
};

}  // namespace spate::bmi::tcp
