// SPDX-License-Identifier: Apache-2.0
// IoService: the io role of a server (docs/architecture.md, "A read, followed" and "A write, followed").
#pragma once

#include <memory>
#include <vector>

#include "base/random.h"
#include "flow/counters.h"
#include "job/network.h"
#include "rpc/service.h"
#include "server/io/options.h"
#include "wire/bypass_messages.h"
#include "wire/check_messages.h"
#include "wire/copy_messages.h"
#include "wire/io_messages.h"
#include "wire/mirror_forward_messages.h"

namespace spate::io {

struct Parts;
class Registration;
struct RegistrationOptions;

/// One per process and executor. Life cycle: construct -> rpc::Server::add() (after the meta role's, if the process has
/// one: its join makes the ticket that this one's checks) -> open() awaited -> start() -> leave_groups() ->
/// rpc::Server::stop() awaited -> stop() awaited -> destroyed. Keyval, network, metrics and the targets' contexts
/// outlive it and run on the network's executor. A meta role may share the keyval store: the key spaces are apart.
class IoService final : public rpc::Service {
 public:
  IoService(const IoOptions& options, std::vector<IoTarget> targets, job::KeyvalContext& keyval,
            job::NetworkContext& network, metrics::Registry& metrics);
  ~IoService() override;

  /// Checks that the keyval store is this server's. `make`: a store that belongs to no server becomes this server's.
  /// Call it before start().
  job::Task<Result<void>> open(bool make);
  /// Starts the background work.
  void start();
  /// Reports to the meta server that this server is there, in the background. `random` outlives this.
  void register_at(RegistrationOptions options, Random& random);
  /// Ends the background work, and reads that have been answered but are still sending.
  job::Task<void> stop();
  /// Has others lead this server's groups, since the process is about to end. Takes a second at most.
  job::Task<void> hand_over();
  /// Stops leading groups, and ends the work for groups. Call it before rpc::Server::stop(), which waits for requests
  /// that may wait for other servers.
  void leave_groups();

  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override;

  /// One round of the background work: removes expired tombstones and fences.
  job::Task<Result<void>> purge();

  const flow::Counters& counters() const;

 private:
  friend struct IoServiceTestAccess;

  // Each of these has a source file of its own.
  job::Task<Result<Bytes>> read(rpc::Call& call, wire::ReadRequest request);
  job::Task<Result<wire::WriteReply>> write(rpc::Call& call, wire::WriteRequest request);
  job::Task<Result<wire::PunchReply>> punch(rpc::Call& call, wire::PunchRequest request);
  job::Task<Result<wire::DatafileAllocateReply>> datafile_allocate(rpc::Call& call,
                                                                   wire::DatafileAllocateRequest request);
  job::Task<Result<wire::DatafileStatReply>> datafile_stat(rpc::Call& call, wire::DatafileStatRequest request);
  job::Task<Result<wire::DatafileTruncateReply>> datafile_truncate(rpc::Call& call,
                                                                   wire::DatafileTruncateRequest request);
  job::Task<Result<wire::DatafileSyncReply>> datafile_sync(rpc::Call& call, wire::DatafileSyncRequest request);
  job::Task<Result<wire::DatafileFlushReply>> datafile_flush(rpc::Call& call, wire::DatafileFlushRequest request);
  job::Task<Result<wire::DatafileRemoveReply>> datafile_remove(rpc::Call& call, wire::DatafileRemoveRequest request);
  job::Task<Result<wire::DatafileListReply>> datafile_list(rpc::Call& call, wire::DatafileListRequest request);
  job::Task<Result<wire::DatafileProbeReply>> datafile_probe(rpc::Call& call, wire::DatafileProbeRequest request);
  job::Task<Result<wire::DatafileDigestReply>> datafile_digest(rpc::Call& call, wire::DatafileDigestRequest request);
  job::Task<Result<wire::BypassLeaseReply>> bypass_lease(rpc::Call& call, wire::BypassLeaseRequest request);
  job::Task<Result<wire::BypassReturnReply>> bypass_return(rpc::Call& call, wire::BypassReturnRequest request);
  job::Task<Result<wire::ExplainPathReply>> explain_path(rpc::Call& call, wire::ExplainPathRequest request);
  job::Task<Result<wire::IoStatfsReply>> io_statfs(rpc::Call& call, wire::IoStatfsRequest request);
  job::Task<Result<wire::DatafileRangesReply>> datafile_ranges(rpc::Call& call, wire::DatafileRangesRequest request);
  job::Task<Result<wire::DatafileCopyReply>> datafile_copy(rpc::Call& call, wire::DatafileCopyRequest request);
  job::Task<Result<wire::FenceReply>> fence(rpc::Call& call, wire::FenceRequest request);
  job::Task<Result<wire::UsedNumbersReply>> used_numbers(rpc::Call& call, wire::UsedNumbersRequest request);
  // mirror_requests.cc has all of these.
  job::Task<Result<wire::MirrorForwardReply>> mirror_forward(rpc::Call& call, wire::MirrorForwardRequest request);
  job::Task<Result<wire::MirrorBeaconReply>> mirror_beacon(rpc::Call& call, wire::MirrorBeaconRequest request);
  job::Task<Result<wire::MirrorObeyReply>> mirror_obey(rpc::Call& call, wire::MirrorObeyRequest request);
  job::Task<Result<wire::MirrorRecordsReply>> mirror_records(rpc::Call& call, wire::MirrorRecordsRequest request);
  job::Task<Result<wire::MirrorWindowReply>> mirror_window(rpc::Call& call, wire::MirrorWindowRequest request);
  job::Task<Result<wire::MirrorFencesReply>> mirror_fences(rpc::Call& call, wire::MirrorFencesRequest request);
  job::Task<Result<wire::CopyRenewReply>> copy_renew(rpc::Call& call, wire::CopyRenewRequest request);

  job::Task<void> purge_again_and_again();

  std::unique_ptr<Parts> parts_;
  std::unique_ptr<Registration> registration_;
};

}  // namespace spate::io
