// SPDX-License-Identifier: Apache-2.0
// meta_statfs, meta_sync, cluster_map and data_groups: operations on the file system as a whole.
#include "server/meta/core/core.h"
#include "server/meta/names/operations.h"
#include "wire/cluster_messages.h"

namespace spate::meta {

Outcome<wire::MetaStatfsReply> meta_statfs(Operation& operation, const wire::MetaStatfsRequest& /*request*/) {
  MetaCore& core = operation.core();
  wire::MetaStatfsReply reply;
  reply.objects = core.objects().count();
  reply.sessions = core.parts().sessions->count();
  reply.removals = core.parts().removals->pending();
  co_return reply;
}

Outcome<wire::MetaSyncReply> meta_sync(Operation& operation, const wire::MetaSyncRequest& /*request*/) {
  SPATE_CO_TRY(std::ignore, co_await operation.core().sync());
  co_return wire::MetaSyncReply{};
}

Outcome<wire::ClusterMapReply> cluster_map(Operation& operation, const wire::ClusterMapRequest& /*request*/) {
  wire::ClusterMapReply reply;
  reply.map = operation.core().membership().map();
  if ((operation.call().peer->features & wire::kFeatureRacks) == 0) {
    for (ServerEntry& server : reply.map.servers) server.rack.clear();
  }
  co_return reply;
}

Outcome<wire::DataGroupsReply> data_groups(Operation& operation, const wire::DataGroupsRequest& request) {
  const rpc::Peer& peer = *operation.call().peer;
  const bool mirrors = (peer.features & wire::kFeatureMirrors) != 0;
  if (request.server && peer.server == request.server && mirrors) {
    operation.core().group_servers().note(request.server, true);
    operation.core().group_servers().heard(request.server);
  }
  co_return operation.core().data_groups().list(request);
}

}  // namespace spate::meta
