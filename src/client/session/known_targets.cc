// SPDX-License-Identifier: Apache-2.0
// Cluster: targets that were added to the file system after this process has read its spate.toml.
#include <algorithm>

#include "client/session/cluster.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::client {
namespace {

constexpr std::uint32_t kMapRoom = 1U << 20U;  // of 4,096 servers with an address of 200 bytes each

}  // namespace

bool Cluster::knows_targets(const Layout& layout) const {
  return std::all_of(layout.slots.begin(), layout.slots.end(), [this](const Slot& slot) {
    return options_.map.server_of_target(slot.targets.front()) != nullptr;
  });
}

/// The meta server has placed the file there, so it knows them. Its map may be older than this process's in other
/// respects: what is known already stays.
job::Task<Result<void>> Cluster::learn_targets(const Layout& layout, Limits limits) {
  if (knows_targets(layout)) co_return Result<void>();
  auto turn = co_await map_turn_.acquire(1, limits.stop);
  if (!turn) co_return std::move(turn).error();
  if (knows_targets(layout)) co_return Result<void>();  // another operation has asked meanwhile
  const wire::ClusterMapRequest request;
  SPATE_CO_TRY(const wire::ClusterMapReply reply, co_await ask<wire::ClusterMapReply>(request, limits, kMapRoom));
  const auto grown = options_.map.grow(reply.map);
  if (!grown) co_return Error(grown.error()).within(meta_->name());
  for (const ServerEntry& server : options_.map.servers) {
    if (channels_.contains(server.id)) continue;
    SPATE_LOG("client", info, "server added to the file system server={} url={}", server.id.value,
              log::Quoted{server.urls.front()});
    const std::lock_guard lock(channels_mutex_);
    channels_.emplace(server.id, make_channel(server));
  }
  co_return Result<void>();  // a target that is still missing is told of by io_channel()
}

}  // namespace spate::client
