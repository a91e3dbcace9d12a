// SPDX-License-Identifier: Apache-2.0
// ChannelIoServers: the requests of a meta server to the io servers, over the network.
#pragma once

#include <map>
#include <memory>

#include "base/unique_function.h"
#include "model/cluster_map.h"
#include "rpc/channel.h"
#include "server/meta/background/group_routes.h"
#include "server/meta/core/parts.h"
#include "wire/io_messages.h"

namespace spate::meta {

/// The server has answered that it does not want or cannot carry out the request. Other errors are transient: the
/// server is busy, or was not reached.
bool is_refusal(Errc code);

struct IoServersOptions {
  ClusterMap map;
  Key server_key{};
  rpc::HandshakePolicy handshake;
  std::string description;  // "meta server 1"
  /// The deadline of each request.
  Duration deadline = std::chrono::seconds(10);
};

/// Has one channel to each io server of the map, and asks each server once for all of its slots. A slot that names a
/// group has a request of its own, which follows the group's primary. The map may grow while requests are under way.
/// One executor; pinned. Network and random numbers outlive it.
class ChannelIoServers final : public IoServers {
 public:
  ChannelIoServers(IoServersOptions options, job::NetworkContext& network, Random& random);

  job::Task<Result<wire::DataSummary>> stat(Handle handle, Layout layout, job::StopToken stop) override;
  job::Task<Result<wire::DataSummary>> truncate(Handle handle, TruncateIntent intent, job::StopToken stop) override;
  job::Task<RemoveOutcome> remove(std::vector<DeadFile> files, WallTime tombstone_until, job::StopToken stop) override;
  job::Task<Result<void>> fence(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop) override;
  job::Task<Result<wire::UsedNumbersReply>> used_numbers(ServerId server, job::StopToken stop) override;
  void server_added(const ServerEntry& server) override;
  void group_changed(const DataGroup& group) override;
  std::string unanswered(Handle handle) const override;

 private:
  /// The slots of a file that one request to one server concerns.
  struct Share {
    rpc::Channel* channel = nullptr;
    TargetId group;                           // 0: the slots name targets of the server
    std::vector<wire::SlotRef> slots;         // ascending
    std::vector<std::uint64_t> sizes;         // truncate: physical
    std::vector<wire::DatafileState> states;  // filled by the reply
  };
  struct RemoveShare;
  /// By server and group; group 0: the datafiles lie on targets of the server.
  using RemoveShares = std::map<std::pair<ServerId, TargetId>, RemoveShare>;
  struct Gathered;
  class Asking;
  Result<std::vector<Share>> shares_of(const Layout& layout);
  /// The channel to the target's server; for a group, the channel to its primary.
  Result<rpc::Channel*> channel_of(TargetId target);
  using ShareTask = job::Task<Result<void>>;
  /// Runs `once(share, stop)`. If the share is a group's and another member leads now, runs it again.
  ShareTask at_primary(Share& share, UniqueFunction<ShareTask(Share&, job::StopToken)> once, job::StopToken stop);
  rpc::CallOptions call_options(job::StopToken stop, std::size_t reply_bytes) const;
  job::Task<Result<void>> stat_share(Handle handle, Share& share, job::StopToken stop);
  job::Task<Result<void>> truncate_share(Handle handle, const TruncateIntent& intent, Share& share,
                                         job::StopToken stop);
  void add_removal(const DeadFile& file, std::size_t index, RemoveOutcome& outcome, RemoveShares& shares);
  job::Task<Result<void>> remove_share(RemoveShare& share, job::StopToken stop);
  void note_failure(const std::vector<DeadFile>& files, const RemoveShare& share, RemoveOutcome& outcome);
  job::Task<Result<void>> fence_one(rpc::Channel& channel, wire::FenceRequest request, job::StopToken stop);

  IoServersOptions options_;
  job::NetworkContext& network_;
  job::Executor& executor_;
  Random& random_;
  rpc::Identity identity_;
  std::map<ServerId, std::unique_ptr<rpc::Channel>> channels_;
  GroupRoutes groups_;
  /// Channels that have not answered yet, by the file that the request concerns.
  std::multimap<Handle, const rpc::Channel*> asked_;
};

}  // namespace spate::meta
