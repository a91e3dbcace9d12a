// SPDX-License-Identifier: Apache-2.0
#include "fsck/servers.h"

#include "wire/cluster_messages.h"
#include "wire/meta_messages.h"

namespace spate::fsck {

Servers::Servers(ServersOptions options, job::NetworkContext& network, Random& random)
    : options_(std::move(options)), network_(network), random_(random) {
  identity_.kind = wire::PeerKind::kServer;
  identity_.fs = options_.map.fs;
  identity_.key = options_.server_key;
  identity_.policy = options_.handshake;
  identity_.credential = options_.credential;
  identity_.description = options_.description;
  identity_.server = options_.speaks_for;
  for (const ServerEntry& server : options_.map.servers) add(server);
  const ServerEntry meta = options_.map.meta_server();
  SPATE_CHECK(!meta.urls.empty());  // config refuses a file system without a meta server
  add(meta);
  meta_ = meta.id;
}

void Servers::add(const ServerEntry& server) {
  if (channels_.contains(server.id)) return;
  rpc::ChannelOptions channel = rpc::channel_to(server);
  channel.watch = options_.watch;
  channels_.emplace(server.id, std::make_unique<rpc::Channel>(std::move(channel), network_, identity_, random_));
}

job::Task<Result<void>> Servers::learn_servers() {
  constexpr std::uint32_t kMapRoom = 1U << 20U;
  const wire::ClusterMapRequest request;
  SPATE_CO_TRY(const wire::ClusterMapReply reply, co_await ask_meta<wire::ClusterMapReply>(request, kMapRoom));
  SPATE_CO_TRY(std::ignore, options_.map.grow(reply.map));
  for (const ServerEntry& server : options_.map.servers) add(server);
  co_return Result<void>();
}

rpc::CallOptions Servers::call_options(Duration deadline, std::uint32_t reply_room) const {
  rpc::CallOptions options;
  options.deadline = network_.executor().now() + deadline;
  options.priority = wire::Priority::kBackground;
  options.reply_room = reply_room;
  return options;
}

ServerId Servers::server_of(TargetId target) const {
  const ServerEntry* const server = options_.map.server_of_target(target);
  return server == nullptr || !server->roles.io ? ServerId() : server->id;
}

}  // namespace spate::fsck
