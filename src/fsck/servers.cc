// SPDX-License-Identifier: Apache-2.0
#include "fsck/servers.h"

namespace spate::fsck {

Servers::Servers(ServersOptions options, job::NetworkContext& network, Random& random)
    : options_(std::move(options)), network_(network) {
  identity_.kind = wire::PeerKind::kServer;
  identity_.fs = options_.map.fs;
  identity_.key = options_.server_key;
  identity_.policy = options_.handshake;
  identity_.credential = options_.credential;
  identity_.description = options_.description;
  for (const ServerEntry& server : options_.map.servers) {
    rpc::ChannelOptions channel;
    channel.urls = server.urls;
    channel.server = server.id;
    channel.watch = options_.watch;
    channels_.emplace(server.id, std::make_unique<rpc::Channel>(std::move(channel), network, identity_, random));
    if (server.roles.meta && !meta_) meta_ = server.id;
  }
  SPATE_CHECK(meta_);  // config refuses a file system without a meta server
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
