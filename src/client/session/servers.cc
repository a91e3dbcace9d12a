// SPDX-License-Identifier: Apache-2.0
#include "client/session/servers.h"

#include <algorithm>

#include "client/session/handover_state.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::client {

Servers::Servers(const Options& options, job::NetworkContext& network, rpc::Identity& identity, Random& random)
    : options_(options), network_(network), identity_(identity), random_(random), map_(options.map) {
  if (options_.on_wait) watch_.emplace(network_.executor(), options_.on_wait);
  for (const ServerEntry& server : map_.servers) channels_.emplace(server.id, make_channel(server));
  const ServerEntry meta = map_.meta_server();
  SPATE_CHECK(!meta.urls.empty());  // config refuses a file system without a meta server
  const auto found = channels_.find(meta.id);
  meta_ = found != channels_.end() ? found->second.get()
                                   : channels_.emplace(meta.id, make_channel(meta)).first->second.get();
}

job::Task<void> Servers::stop() {
  if (watch_) co_await watch_->stop();
}

std::unique_ptr<rpc::Channel> Servers::make_channel(const ServerEntry& server) {
  rpc::ChannelOptions options = rpc::channel_to(server);
  options.attempt_timeout = options_.attempt_timeout;
  if (options_.handover != nullptr) options.incarnations_above = options_.handover->first_number();
  options.watch = watch();
  return std::make_unique<rpc::Channel>(std::move(options), network_, identity_, random_);
}

/// Null: unknown.
const ServerEntry* Servers::server_for(TargetId target) const {
  if (!is_group(target)) return map_.server_of_target(target);
  const DataGroup* const group = groups_.find(target);
  return group == nullptr ? nullptr : map_.server_of_target(group->primary);
}

Result<rpc::Channel*> Servers::io_channel(TargetId target) {
  const ServerEntry* server = server_for(target);
  if (server == nullptr) {
    return Error(Errc::kStaleMap, "target " + std::to_string(target.value) +
                                      " is neither in this client's spate.toml nor known to the meta server");
  }
  return channels_[server->id].get();
}

bool Servers::knows_targets(const Layout& layout) const {
  return std::all_of(layout.slots.begin(), layout.slots.end(),
                     [this](const Slot& slot) { return server_for(slot.targets.front()) != nullptr; });
}

std::vector<TargetId> Servers::unknown_groups(const Layout& layout) const {
  std::vector<TargetId> unknown;
  for (const Slot& slot : layout.slots) {
    const TargetId id = slot.targets.front();
    if (is_group(id) && groups_.find(id) == nullptr) unknown.push_back(id);
  }
  return unknown;
}

/// Takes from the newer map only what was added. In other respects it may be older than the map of this process.
Result<void> Servers::add(const ClusterMap& newer) {
  SPATE_TRY(std::ignore, map_.grow(newer));
  for (const ServerEntry& server : map_.servers) {
    if (channels_.contains(server.id)) continue;
    SPATE_LOG("client", info, "server added to the file system server={} url={}", server.id.value,
              log::Quoted{server.urls.front()});
    const std::lock_guard lock(mutex_);
    channels_.emplace(server.id, make_channel(server));
  }
  return {};
}

bool Servers::any_restarted() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& entry) { return entry.second->has_restarted(); });
}

std::vector<rpc::ServerWait> Servers::waits(Duration least) const {
  std::vector<const rpc::Channel*> channels;
  for (const auto& [server, channel] : channels_) channels.push_back(channel.get());
  return rpc::waits_for(channels, network_.executor().now(), least);
}

}  // namespace spate::client
