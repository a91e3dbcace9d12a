// SPDX-License-Identifier: Apache-2.0
// ReplyWriter: encodes, seals and sends a server's replies.
#pragma once

#include <cstdint>

#include "job/network.h"
#include "job/task.h"
#include "rpc/call.h"

namespace spate::rpc {

/// Time to send the reply of a request whose deadline has passed.
inline constexpr Duration kReplyGrace = std::chrono::seconds(1);

/// One per server. One executor; outlives the calls.
class ReplyWriter {
 public:
  /// `stopping` cancels the sends under way.
  ReplyWriter(job::NetworkContext& network, Incarnation incarnation, std::uint64_t map_version, job::StopToken stopping)
      : network_(network), incarnation_(incarnation), map_version_(map_version), stopping_(stopping) {}

  /// The version of the cluster map that every reply reports from now on.
  void set_map_version(std::uint64_t version) { map_version_ = version; }
  void set_incarnation(Incarnation incarnation) { incarnation_ = incarnation; }
  /// The header of a reply that reports no error.
  wire::ReplyHeader header(const Call& call) const;
  /// Sends the answer to `call`. Ends when the network has taken it, when the connection is lost, or at the deadline.
  job::Task<void> send(Call& call, Result<Bytes> result);

 private:
  Bytes encode_head(const Call& call, Result<Bytes>& result) const;

  job::NetworkContext& network_;
  Incarnation incarnation_;
  std::uint64_t map_version_;
  const job::StopToken stopping_;
};

}  // namespace spate::rpc
