// SPDX-License-Identifier: Apache-2.0
// Servers: a client's channels to all servers of one file system, and the map of which server holds which target.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/random.h"
#include "client/options.h"
#include "client/session/groups.h"
#include "job/network.h"
#include "model/layout.h"
#include "rpc/channel.h"
#include "rpc/wait_watch.h"

namespace spate::client {

/// One channel for each server. The first request over a channel makes the handshake. One executor, except where a
/// function says otherwise. Life cycle: construct -> calls -> stop() awaited -> destroyed. The channels live as long as
/// this object.
class Servers {
 public:
  /// All parameters outlive this object. Each handshake sends `identity`, which the session changes.
  Servers(const Options& options, job::NetworkContext& network, rpc::Identity& identity, Random& random);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;
  /// Ends the watch over waiting calls. Requests in flight continue.
  job::Task<void> stop();

  rpc::Channel& meta() { return *meta_; }
  /// The channel to the server that holds a target, or to the primary of a group. kStaleMap: this client does not know
  /// the server; see Session::learn_targets().
  Result<rpc::Channel*> io_channel(TargetId target);
  /// All channels by server id; 0: the channel to the meta servers of a group.
  const std::map<ServerId, std::unique_ptr<rpc::Channel>>& channels() const { return channels_; }
  const ClusterMap& map() const { return map_; }

  Groups& groups() { return groups_; }
  const Groups& groups() const { return groups_; }

  /// Whether this client knows the servers of all targets of a layout, and of the primaries of its groups.
  bool knows_targets(const Layout& layout) const;
  /// The groups of a layout that this client does not know.
  std::vector<TargetId> unknown_groups(const Layout& layout) const;
  /// Adds servers and targets that only `newer` has. Known servers and targets do not change.
  Result<void> add(const ClusterMap& newer);

  /// Whether this client has seen any server restart. If it has not, no write is lost. Thread-safe.
  bool any_restarted() const;
  /// The servers that keep calls waiting for at least `least`.
  std::vector<rpc::ServerWait> waits(Duration least) const;
  /// For other channels of this process. Null: Options::on_wait is empty.
  rpc::WaitWatch* watch() { return watch_ ? &*watch_ : nullptr; }

 private:
  std::unique_ptr<rpc::Channel> make_channel(const ServerEntry& server);
  const ServerEntry* server_for(TargetId target) const;

  const Options& options_;
  job::NetworkContext& network_;
  rpc::Identity& identity_;
  Random& random_;
  ClusterMap map_;
  Groups groups_;
  std::optional<rpc::WaitWatch> watch_;  // set if Options::on_wait is
  // Only the executor's thread adds channels, with the mutex held. Other threads read with the mutex held.
  std::map<ServerId, std::unique_ptr<rpc::Channel>> channels_;
  mutable std::mutex mutex_;
  rpc::Channel* meta_ = nullptr;
};

}  // namespace spate::client
