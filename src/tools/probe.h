// SPDX-License-Identifier: Apache-2.0
// Probe: finds out whether a server answers and takes our key, without a session. For `up`, `status` and `ping`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "wire/session_messages.h"

namespace spate::tools {

/// Whether a server accepts connections at one of the URLs (TCP only; waits at most 50 ms).
bool answers(const std::vector<std::string>& urls);
/// Whether nobody can listen at any of the URLs. Only TCP tells that at once; a server that has a TCP address listens
/// there, whatever its addresses for clients on its own machine are. With other networks it returns false.
bool surely_down(const std::vector<std::string>& urls);

struct PingResult {
  wire::PingReply reply;
  std::vector<Duration> round_trips;
  double bytes_per_second = 0;  // one way, with large payloads in both directions in turn
  bmi::PeerInfo peer;           // the network that was used
};

struct PingOptions {
  std::uint64_t count = 1;  // round trips
  Duration deadline = std::chrono::seconds(3);
  bool bandwidth = false;
};

/// The servers of spate.toml, and those that the meta server knows besides, if it answers within a second.
std::vector<config::ServerConfig> all_servers(assembly::ClientProcess& process);

/// Waits up to `timeout` until a meta server opens sessions. With several meta servers, one must first be elected.
Result<void> wait_for_meta(const std::string& config_file, Duration timeout);

/// Asks one server. The server proves that it has the keys of this file system, and checks this client's. No session is
/// opened, so a server answers even if others are down. The error says which step failed.
Result<PingResult> ping(assembly::ClientProcess& process, ServerId server, PingOptions how);
/// The part of one of several meta servers: "leads in epoch 3", "backup", "joining". Empty: it is no such server.
std::string part_of(const wire::PingReply& reply);
/// Asks several servers at once; one result for each.
std::map<ServerId, Result<PingResult>> ping_all(assembly::ClientProcess& process, const std::vector<ServerId>& servers,
                                                PingOptions how);

}  // namespace spate::tools
