// SPDX-License-Identifier: Apache-2.0
// Servers: a client's channels to all servers of one file system, and which of them holds what.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/random.h"
#include "client/options.h"
#include "job/network.h"
#include "model/layout.h"
#include "rpc/channel.h"
#include "rpc/wait_watch.h"

namespace spate::client {

/// One channel a server. The first request that needs it makes the handshake. One executor, except where a method says
/// otherwise. Life: construct -> calls -> stop() awaited -> destroyed; a channel lives as long as this.
class Servers {
 public:
  /// All outlive this. `identity` is what each handshake tells; the session changes it.
  Servers(const Options& options, job::NetworkContext& network, rpc::Identity& identity, Random& random);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;
  /// Ends what tells of waits. Requests under way go on.
  job::Task<void> stop();

  rpc::Channel& meta() { return *meta_; }
  /// The channel to the server that holds a target; kStaleMap when the map names none: see Session::learn_targets().
  Result<rpc::Channel*> io_channel(TargetId target);
  /// All channels, by server id; 0: that to the meta servers of a group.
  const std::map<ServerId, std::unique_ptr<rpc::Channel>>& channels() const { return channels_; }
  const ClusterMap& map() const { return map_; }

  /// Whether this process knows the servers of all targets of a layout.
  bool knows_targets(const Layout& layout) const;
  /// Adds the servers and targets that only `newer` names. Nothing that is known changes.
  Result<void> add(const ClusterMap& newer);

  /// Whether any server was seen to restart: else no write is lost. Thread-safe.
  bool any_restarted() const;
  /// The servers that keep calls waiting for at least `least`.
  std::vector<rpc::ServerWait> waits(Duration least) const;
  /// For other channels of this process; null: nobody wants to be told.
  rpc::WaitWatch* watch() { return watch_ ? &*watch_ : nullptr; }

 private:
  std::unique_ptr<rpc::Channel> make_channel(const ServerEntry& server);

  const Options& options_;
  job::NetworkContext& network_;
  rpc::Identity& identity_;
  Random& random_;
  ClusterMap map_;
  std::optional<rpc::WaitWatch> watch_;  // if anybody wants to be told
  // Grows on the executor's thread only, under the mutex; other threads look under it.
  std::map<ServerId, std::unique_ptr<rpc::Channel>> channels_;
  mutable std::mutex mutex_;
  rpc::Channel* meta_ = nullptr;
};

}  // namespace spate::client
