// SPDX-License-Identifier: Apache-2.0
// MirrorPeers: the connections to the other io servers that have members of the same groups.
#pragma once

#include <map>
#include <memory>

#include "base/random.h"
#include "model/cluster_map.h"
#include "rpc/channel.h"

namespace spate::io {

/// Beacons have a connection of their own, so that they do not wait behind data. One executor; pinned. Network,
/// identity and random numbers outlive it.
class MirrorPeers {
 public:
  MirrorPeers(job::NetworkContext& network, rpc::Identity& identity, Random& random)
      : network_(network), identity_(identity), random_(random) {}
  MirrorPeers(const MirrorPeers&) = delete;
  MirrorPeers& operator=(const MirrorPeers&) = delete;

  enum class Lane : std::uint8_t { kData, kBeacons };

  void set_map(ClusterMap map) { map_ = std::move(map); }
  const ClusterMap& map() const { return map_; }
  bool knows(ServerId server) const { return map_.find_server(server) != nullptr; }
  job::NetworkContext& network() { return network_; }

  /// One request. kUnreachable if the map does not have the server.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> call(ServerId server, Lane lane, const Request& request, rpc::CallOptions options) {
    rpc::Channel* const channel = channel_to(server, lane);
    if (channel == nullptr) co_return Error(Errc::kUnreachable, "an io server that the cluster map does not have");
    auto reply = co_await channel->call<Reply>(request, options);
    co_return reply;
  }
  /// The same with a request that is encoded already. `body` outlives the task.
  template <typename Reply>
  job::Task<Result<Reply>> call_encoded(ServerId server, Lane lane, wire::Op op, ByteView body,
                                        rpc::CallOptions options) {
    rpc::Channel* const channel = channel_to(server, lane);
    if (channel == nullptr) co_return Error(Errc::kUnreachable, "an io server that the cluster map does not have");
    SPATE_CO_TRY(auto raw, co_await channel->call(op, body, options));
    auto reply = wire::decode_body<Reply>(raw.body);
    if (!reply) co_return std::move(reply).error().within(channel->name());
    co_return reply;
  }

 private:
  rpc::Channel* channel_to(ServerId server, Lane lane);

  job::NetworkContext& network_;
  rpc::Identity& identity_;
  Random& random_;
  ClusterMap map_;
  std::map<std::pair<ServerId, Lane>, std::unique_ptr<rpc::Channel>> channels_;
};

/// One message of bulk data that goes with a request. Pinned; `data` outlives it.
class MirrorBulk final : public rpc::Bulk {
 public:
  MirrorBulk(job::NetworkContext& network, ByteView data) : network_(network), data_(data) {}
  MirrorBulk(const MirrorBulk&) = delete;
  MirrorBulk& operator=(const MirrorBulk&) = delete;
  void post(bmi::Address peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& seals) override;
  job::Task<void> abandon() override;

 private:
  job::NetworkContext& network_;
  const ByteView data_;
  wire::BulkSeals::Code code_{};
  std::optional<job::NetworkOp> op_;
};

}  // namespace spate::io
