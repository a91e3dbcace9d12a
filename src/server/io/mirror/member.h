// SPDX-License-Identifier: Apache-2.0
// MirrorMember: how a member answers the other members of its groups (docs/availability.md, "Mirrored data").
#pragma once

#include "flow/buffer_pool.h"
#include "rpc/call.h"
#include "server/io/mirror/forwarder.h"
#include "server/io/parts.h"
#include "wire/mirror_forward_messages.h"

namespace spate::io {

/// Answers the requests of other members. Each call yields a reply, even if it refuses the request. Only the server of
/// the group's primary is accepted as the sender.
///
/// A part of Mirrors, with its life cycle: a call that waits for storage or for data ends early when `stopping` fires
/// or when its request is stopped. One executor; pinned. The arguments of the constructor must outlive the object.
class MirrorMember {
 public:
  MirrorMember(MirrorHost& host, Parts& parts, job::StopSource& stopping, metrics::Registry& metrics);
  MirrorMember(const MirrorMember&) = delete;
  MirrorMember& operator=(const MirrorMember&) = delete;

  job::Task<wire::MirrorForwardReply> take(const rpc::Call& call, wire::MirrorForwardRequest request);
  job::Task<wire::MirrorBeaconReply> take(const rpc::Call& call, wire::MirrorBeaconRequest request);
  job::Task<wire::MirrorObeyReply> take(const rpc::Call& call, wire::MirrorObeyRequest request);
  wire::MirrorRecordsReply take(const rpc::Call& call, const wire::MirrorRecordsRequest& request);
  job::Task<wire::MirrorWindowReply> take(const rpc::Call& call, wire::MirrorWindowRequest request);
  job::Task<wire::MirrorFencesReply> take(const rpc::Call& call, wire::MirrorFencesRequest request);

 private:
  wire::BeaconAnswer answer_beacon(const rpc::Call& call, const wire::BeaconGroup& beacon);
  std::uint8_t flags_of(const MirrorGroup& group) const;
  /// The group, if it accepts this epoch, this member is not its primary, and the call is from its primary's server.
  /// Otherwise null, with the reason in `why`. `Request` has a group and an epoch.
  template <typename Request>
  MirrorGroup* accepting(const rpc::Call& call, const Request& request, wire::MirrorVerdict& why) {
    return accepting(call, request.group, request.epoch, why);
  }
  MirrorGroup* accepting(const rpc::Call& call, TargetId group, std::uint64_t epoch, wire::MirrorVerdict& why);
  job::Task<Result<flow::PooledBuffer>> receive(const rpc::Call& call, std::uint64_t bytes);
  job::Task<Errc> carry_out_once(MirrorGroup& group, const wire::MirrorForwardRequest& request, ByteView data);

  MirrorHost& host_;
  Parts& parts_;
  job::StopSource& stopping_;
  flow::BufferPool pool_;  // for data from other members: clients cannot use it up
};

}  // namespace spate::io
