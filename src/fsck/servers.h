// SPDX-License-Identifier: Apache-2.0
// Servers: sends requests to all servers of a file system under the server key, which allows requests that only servers
// may send.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "base/random.h"
#include "job/network.h"
#include "model/cluster_map.h"
#include "rpc/channel.h"

namespace spate::fsck {

struct ServersOptions {
  ClusterMap map;
  Key server_key{};
  rpc::HandshakePolicy handshake;
  Credential credential;  // of the user who runs the check; owner of new objects (/lost+found)
  std::string description = "fsck";
  ServerId speaks_for;                           // the io server that it calls itself; 0: none
  Duration deadline = std::chrono::seconds(30);  // of one request, resends included
  /// Time for a request to an io server whose failure only makes the check incomplete.
  Duration io_deadline = std::chrono::seconds(15);
  rpc::ChannelObserver* watch = nullptr;  // rpc::ChannelOptions::watch
};

/// One executor; pinned. Life cycle: construct (no traffic) -> learn_servers() -> requests -> destroyed, when no
/// request is under way. `network` and `random` outlive it. No client of the same process may use the same network: a
/// server knows one peer on each connection.
///
/// Any number of requests may be under way. Each one waits for at most its deadline. The first timeout or lost
/// connection in ask_io() marks the server as down, so that a check waits for a dead server only once.
class Servers {
 public:
  Servers(ServersOptions options, job::NetworkContext& network, Random& random);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  const ClusterMap& map() const { return options_.map; }
  job::Executor& executor() { return network_.executor(); }
  ServerId meta_server() const { return meta_; }

  template <typename Reply, typename Request>
  job::Task<Result<Reply>> ask_meta(const Request& request, std::uint32_t reply_room = 64 * 1024) {
    const rpc::CallOptions options = call_options(options_.deadline, reply_room);
    auto reply = co_await channels_.at(meta_)->template call<Reply>(request, options);
    co_return reply;
  }
  /// Fails with kUnreachable at once for a server that has failed to answer before.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> ask_io(ServerId server, const Request& request, std::uint32_t reply_room = 256 * 1024) {
    if (down_.contains(server)) co_return Error(Errc::kUnreachable, channels_.at(server)->name());
    const rpc::CallOptions options = call_options(options_.io_deadline, reply_room);
    auto reply = co_await channels_.at(server)->template call<Reply>(request, options);
    if (!reply && is_silence(reply.code())) down_.insert(server);
    co_return reply;
  }
  /// As ask_io(), with the time of a request to the meta server, for a request that may take long. Its failure says
  /// nothing about later ones.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> ask_once(ServerId server, const Request& request) {
    if (down_.contains(server)) co_return Error(Errc::kUnreachable, channels_.at(server)->name());
    const rpc::CallOptions options = call_options(options_.deadline, 64 * 1024);
    auto reply = co_await channels_.at(server)->template call<Reply>(request, options);
    co_return reply;
  }
  /// The io server that holds a target; 0 if there is none.
  ServerId server_of(TargetId target) const;
  /// "server 3 (tcp://...)".
  std::string name_of(ServerId server) const { return channels_.at(server)->name(); }
  /// Asks the meta server for the servers that were added since spate.toml was read. Call it before other requests.
  job::Task<Result<void>> learn_servers();
  /// Tries servers again that have not answered.
  void forget_failures() { down_.clear(); }

 private:
  static bool is_silence(Errc code) {
    return code == Errc::kTimeout || code == Errc::kUnreachable || code == Errc::kConnectionLost;
  }
  rpc::CallOptions call_options(Duration deadline, std::uint32_t reply_room) const;
  void add(const ServerEntry& server);

  ServersOptions options_;
  job::NetworkContext& network_;
  Random& random_;
  rpc::Identity identity_;
  std::map<ServerId, std::unique_ptr<rpc::Channel>> channels_;
  ServerId meta_;
  std::set<ServerId> down_;
};

}  // namespace spate::fsck
