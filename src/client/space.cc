// SPDX-License-Identifier: Apache-2.0
#include "client/space.h"

#include <set>

#include "job/run_all.h"
#include "wire/cluster_messages.h"

namespace spate::client {
namespace {

/// The task never fails; `out` says whether the server answered.
job::Task<Result<void>> server_space(rpc::Channel& channel, Limits limits, SpaceUse::Server& out) {
  const wire::IoStatfsRequest request;
  const rpc::CallOptions options = limits.call_options();
  auto reply = co_await channel.call<wire::IoStatfsReply>(request, options);
  if (reply) {
    out.targets = std::move(reply->targets);
  } else {
    out.answered = std::move(reply).error();
  }
  co_return Result<void>();
}

void add_up(SpaceUse& use) {
  std::set<std::uint64_t> devices;
  for (const SpaceUse::Server& server : use.servers) {
    for (const wire::TargetSpace& target : server.targets) {
      if (!devices.insert(target.device).second) continue;
      use.total_bytes += target.total_bytes;
      use.free_bytes += target.free_bytes;
      use.total_files += target.total_files;
      use.free_files += target.free_files;
    }
  }
}

}  // namespace

job::Task<Result<SpaceUse>> space_use(Session& session, Limits limits, Limits of_io_servers) {
  const wire::MetaStatfsRequest request;
  SPATE_CO_TRY(auto meta, co_await session.ask(request, limits));
  SpaceUse use;
  use.objects = meta.objects;
  SPATE_CO_TRY(std::ignore, co_await session.learn_newer_map(limits));  // to learn of servers that were added
  for (const ServerEntry& server : session.servers().map().servers) {
    if (server.roles.io) use.servers.push_back({server.id, {}});
  }
  std::vector<job::Task<Result<void>>> tasks;
  for (SpaceUse::Server& server : use.servers) {
    tasks.push_back(server_space(*session.servers().channels().at(server.server), of_io_servers, server));
  }
  std::ignore = co_await job::run_all(session.executor(), std::move(tasks));
  add_up(use);
  co_return use;
}

}  // namespace spate::client
