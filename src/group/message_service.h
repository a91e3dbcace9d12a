// SPDX-License-Identifier: Apache-2.0
// MessageService: takes what other members send to this one, and keeps clients away while it does not lead.
#pragma once

#include <list>

#include "group/member.h"
#include "rpc/reply_gate.h"
#include "rpc/service.h"
#include "wire/group_messages.h"

namespace spate::group {

/// Answers group messages, and gates the replies of its server. Life cycle: construct -> added to an rpc::Server ->
/// begin_to_serve() once the member leads and its roles answer -> destroyed after the server. One executor.
class MessageService final : public rpc::Service, public rpc::ReplyGate {
 public:
  /// The member outlives it.
  explicit MessageService(Member& member);

  /// The roles above the member's store answer from now on.
  void begin_to_serve() { serving_ = true; }
  bool serves() const override { return serving_ && member_.leads(); }

  /// Refuses clients while this member does not serve: their sessions are kept by the member that leads.
  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override;
  job::Task<Result<void>> pass(bool needs_copies, job::StopToken stop) override;
  /// kNotPrimary, with the member that leads as far as is known.
  Error elsewhere() const override;
  std::string part() const override;

 private:
  /// A message that has not arrived with all its parts yet.
  struct Partial {
    std::uint64_t message = 0;
    std::uint32_t next = 0;
    Bytes bytes;
  };
  job::Task<Result<wire::GroupMessageReply>> take(rpc::Call& call, wire::GroupMessageRequest request);
  Result<Bytes> whole(wire::GroupMessageRequest& request);
  std::string copies() const;

  Member& member_;
  bool serving_ = false;
  std::list<Partial> partial_;  // the newest first
};

}  // namespace spate::group
