// SPDX-License-Identifier: Apache-2.0
// GroupRecordClient: reads and changes the groups' records, which the meta server keeps.
#pragma once

#include <vector>

#include "base/random.h"
#include "rpc/channel.h"
#include "wire/mirror_messages.h"

namespace spate::io {

/// One executor; pinned. Any number of calls at once. Network, identity and random numbers outlive it. read() and
/// of_server() send a request for each page. Each request is sent again over a new connection when the meta server has
/// been silent for a second, longer where the network has been slow, and fails after 30 s. `stop` ends it earlier.
class GroupRecordClient {
 public:
  GroupRecordClient(const ServerEntry& meta, job::NetworkContext& network, rpc::Identity& identity, Random& random);
  GroupRecordClient(const GroupRecordClient&) = delete;
  GroupRecordClient& operator=(const GroupRecordClient&) = delete;

  /// Returns those of `groups` that exist, in their order.
  job::Task<Result<std::vector<DataGroup>>> read(std::vector<TargetId> groups, job::StopToken stop);
  /// Returns all groups that have a target of this server.
  job::Task<Result<std::vector<DataGroup>>> of_server(ServerId server, job::StopToken stop);
  /// Asks for the change. After an error it is unknown whether it was made, or will be.
  job::Task<Result<wire::ChangeGroupReply>> change(wire::ChangeGroupRequest request, job::StopToken stop);
  /// Returns the servers and their addresses.
  job::Task<Result<ClusterMap>> map(job::StopToken stop);

 private:
  rpc::CallOptions options(job::StopToken stop) const;
  job::Task<Result<std::vector<DataGroup>>> ask(wire::DataGroupsRequest request, job::StopToken stop);

  job::Executor& executor_;
  rpc::Channel meta_;
};

}  // namespace spate::io
