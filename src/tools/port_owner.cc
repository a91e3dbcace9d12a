// SPDX-License-Identifier: Apache-2.0
#include "tools/port_owner.h"

#include <filesystem>

#include "tools/deployment.h"
#include "tools/probe.h"
#include "tools/server_control.h"

namespace spate::tools {

Result<PortOwner> look_at_port(Context& context, const std::string& folder, const config::ServerConfig& server) {
  if (!answers(server.urls)) return PortOwner::kNobody;
  SPATE_TRY(const assembly::ClientSettings settings, context.client_settings(config_path(folder)));
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  PingOptions how;
  how.deadline = std::chrono::seconds(2);
  const auto reply = ping(*process, server.id, how);
  if (!reply && reply.code() == Errc::kUnreachable) return PortOwner::kNobody;  // it has just ended
  if (!reply || reply->reply.server != server.id) return PortOwner::kOther;
  // A ping proves nothing: any process that listens there may name any process id. A server with a pid file may be
  // killed, so check the process.
  std::error_code ignored;
  for (const RunningServer& one : running_servers()) {
    if (one.server != server.id || !std::filesystem::equivalent(one.config_file, config_path(folder), ignored))
      continue;
    SPATE_TRY(std::ignore, adopt_server(folder, server.id, one.pid));
    return PortOwner::kThatServer;
  }
  return PortOwner::kOther;
}

}  // namespace spate::tools
