// SPDX-License-Identifier: Apache-2.0
// Probe: is somebody there? Without a session, for `up`, `status` and `ping`.
#pragma once

#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "wire/session_messages.h"

namespace spate::tools {

/// A server accepts connections at one of the URLs (TCP only; waits at most 50 ms).
bool answers(const std::vector<std::string>& urls);

struct PingResult {
  wire::PingReply reply;
  std::vector<Duration> round_trips;
  double bytes_per_second = 0;  // one way, of large payloads, there and back in turn
  std::string url;
};

/// Asks one server `count` times.
Result<PingResult> ping(assembly::ClientProcess& process, ServerId server, std::uint64_t count, Duration deadline);

}  // namespace spate::tools
