// SPDX-License-Identifier: Apache-2.0
// MetaGroup: one meta server's part in the group of all meta servers.
#pragma once

#include <functional>
#include <memory>

#include "coord/coordinator.h"
#include "group/channel_link.h"
#include "group/member.h"
#include "group/message_service.h"
#include "job/gate.h"
#include "trove/replicated_keyval.h"

namespace spate::assembly {

struct MetaGroupOptions {
  FsId fs;
  ServerId self;
  std::vector<group::ChannelLinkOptions::Member> members;  // this one included
  std::uint64_t boot = 0;
  Key server_key{};
  rpc::HandshakePolicy handshake;
};

/// Life: construct -> start() awaited -> `lead` is called when this member is chosen, `ended` once when it has resigned
/// -> hand_over() -> stop() awaited, when nothing uses the records any more -> destroyed. One executor. Store, network
/// and random numbers outlive it.
class MetaGroup {
 public:
  MetaGroup(MetaGroupOptions options, std::unique_ptr<coord::Coordinator> coordinator, trove::Keyval& store,
            job::NetworkContext& network, Random& random);
  MetaGroup(const MetaGroup&) = delete;
  MetaGroup& operator=(const MetaGroup&) = delete;

  struct Actions {
    std::function<job::Task<Result<void>>()> lead;  // starts what stands on the records; a failure: it resigns
    std::function<void()> ended;
  };
  job::Task<Result<void>> start(Actions actions);
  /// Gives the group to a member that has everything, if this one leads.
  job::Task<void> hand_over();
  job::Task<void> stop();

  /// Of the member that leads; what the group replicates.
  job::KeyvalContext& records() { return *records_; }
  group::MessageService& service() { return service_; }
  bool has_resigned() { return member_.resigned().is_set(); }
  /// Changes only when what was not synced may be lost on all members: their records are the same.
  Incarnation incarnation() const;

 private:
  job::Task<void> lead_when_chosen();
  job::Task<void> tell_end();

  const MetaGroupOptions options_;
  job::Executor& executor_;
  trove::ReplicatedKeyval keyval_;
  std::unique_ptr<job::KeyvalContext> records_;
  std::unique_ptr<coord::Coordinator> coordinator_;
  group::ChannelLink link_;
  group::Member member_;
  group::MessageService service_;
  Actions actions_;
  job::Gate gate_;
  job::StopSource stopping_;
  bool started_ = false;
};

}  // namespace spate::assembly
