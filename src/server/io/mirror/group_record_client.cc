// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/group_record_client.h"

#include <algorithm>

#include "wire/cluster_messages.h"

namespace spate::io {
namespace {

constexpr Duration kCallTimeout = std::chrono::seconds(30);
constexpr Duration kSilence = std::chrono::seconds(1);
constexpr std::uint32_t kGroupsRoom = 256 * 1024;  // of the largest reply
constexpr std::uint32_t kWholeMapRoom = 4U << 20U;

/// The only meta server may have lost its machine, and be back soon. Of several, another one may lead.
rpc::ChannelOptions quick_channel_to(const ServerEntry& meta) {
  rpc::ChannelOptions options = rpc::channel_to(meta);
  if (!meta.id) return options;
  options.attempt_timeout = kSilence;
  options.most_patience = rpc::kMostPatience;
  options.longest_backoff = kSilence / 5;
  return options;
}

}  // namespace

GroupRecordClient::GroupRecordClient(const ServerEntry& meta, job::NetworkContext& network, rpc::Identity& identity,
                                     Random& random)
    : executor_(network.executor()), meta_(quick_channel_to(meta), network, identity, random) {}

rpc::CallOptions GroupRecordClient::options(job::StopToken stop) const {
  rpc::CallOptions options;
  options.deadline = executor_.now() + kCallTimeout;
  options.stop = stop;
  options.priority = wire::Priority::kControl;
  options.reply_room = kGroupsRoom;
  return options;
}

job::Task<Result<std::vector<DataGroup>>> GroupRecordClient::ask(wire::DataGroupsRequest request, job::StopToken stop) {
  std::vector<DataGroup> found;
  const std::vector<TargetId> wanted = request.groups;
  for (bool more = true; more;) {
    const rpc::CallOptions how = options(stop);
    SPATE_CO_TRY(wire::DataGroupsReply page, co_await meta_.call<wire::DataGroupsReply>(request, how));
    more = page.more && !page.groups.empty();
    if (more && wanted.empty() && page.groups.back().id <= request.after)
      co_return Error(Errc::kProtocol, meta_.name() + " lists groups out of order");
    if (more) {
      request.after = page.groups.back().id;
      const auto last = std::ranges::find(request.groups, page.groups.back().id);
      if (last != request.groups.end()) request.groups.erase(request.groups.begin(), last + 1);
      if (!wanted.empty() && (last == request.groups.end() || request.groups.empty())) more = false;
    }
    std::ranges::move(page.groups, std::back_inserter(found));
  }
  co_return found;
}

job::Task<Result<std::vector<DataGroup>>> GroupRecordClient::read(std::vector<TargetId> groups, job::StopToken stop) {
  std::vector<DataGroup> found;
  for (std::size_t at = 0; at < groups.size(); at += wire::kMaxGroupsAsked) {
    wire::DataGroupsRequest request;
    const auto first = groups.begin() + static_cast<std::ptrdiff_t>(at);
    request.groups.assign(first,
                          first + static_cast<std::ptrdiff_t>(std::min(groups.size() - at, wire::kMaxGroupsAsked)));
    SPATE_CO_TRY(std::vector<DataGroup> some, co_await ask(std::move(request), stop));
    std::ranges::move(some, std::back_inserter(found));
  }
  co_return found;
}

job::Task<Result<std::vector<DataGroup>>> GroupRecordClient::of_server(ServerId server, job::StopToken stop) {
  wire::DataGroupsRequest request;
  request.server = server;
  auto found = co_await ask(std::move(request), stop);
  co_return found;
}

job::Task<Result<wire::ChangeGroupReply>> GroupRecordClient::change(wire::ChangeGroupRequest request,
                                                                    job::StopToken stop) {
  const rpc::CallOptions how = options(stop);
  auto reply = co_await meta_.call<wire::ChangeGroupReply>(request, how);
  co_return reply;
}

job::Task<Result<ClusterMap>> GroupRecordClient::map(job::StopToken stop) {
  rpc::CallOptions how = options(stop);
  how.reply_room = kWholeMapRoom;
  const wire::ClusterMapRequest request;
  SPATE_CO_TRY(wire::ClusterMapReply reply, co_await meta_.call<wire::ClusterMapReply>(request, how));
  co_return std::move(reply.map);
}

}  // namespace spate::io
