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
#include "metrics/metrics.h"
#include "trove/replicated_keyval.h"

namespace spate::assembly {

struct MetaGroupOptions {
  FsId fs;
  ServerId self;
  std::vector<group::ChannelLinkOptions::Member> members;  // this one included
  std::uint64_t boot = 0;
  std::uint32_t min_copies = 1;  // of a new group
  Key server_key{};
  rpc::HandshakePolicy handshake;
};

/// The state of the group as this member sees it, for those who watch the servers.
struct MetaGroupGauges {
  explicit MetaGroupGauges(metrics::Registry& metrics)
      : leads(metrics, "spate_group_leads"),
        missing(metrics, "spate_group_members_missing"),
        record_age(metrics, "spate_group_record_age_seconds") {}
  metrics::Gauge leads;
  metrics::Gauge missing;
  metrics::Gauge record_age;
};

/// Life cycle: construct -> start() awaited -> `lead` is called when the group chooses this member, and `ended` once
/// after it has resigned and waited for Member::pause() -> hand_over() -> stop() awaited, when nothing uses the records
/// any more -> destroyed. Used on one executor. The store, the network, the random numbers and the metrics outlive it.
class MetaGroup {
 public:
  MetaGroup(MetaGroupOptions options, std::unique_ptr<coord::Coordinator> coordinator, trove::Keyval& store,
            job::NetworkContext& network, Random& random, metrics::Registry& metrics);
  MetaGroup(const MetaGroup&) = delete;
  MetaGroup& operator=(const MetaGroup&) = delete;

  struct Actions {
    std::function<job::Task<Result<void>>()> lead;  // starts the roles above the records; on failure it resigns
    std::function<void()> ended;
  };
  job::Task<Result<void>> start(Actions actions);
  /// Gives the group to a member that has everything, if this one leads.
  job::Task<void> hand_over();
  job::Task<void> stop();

  /// The records that the group replicates. Only the member that leads may use them.
  job::KeyvalContext& records() { return *records_; }
  group::MessageService& service() { return service_; }
  bool has_resigned() { return member_.resigned().is_set(); }
  /// Changes only when unsynced writes may be lost on all members, because all members have the same records.
  Incarnation incarnation() const;

 private:
  job::Task<void> lead_when_chosen();
  job::Task<void> tell_end();
  job::Task<void> show_state();

  const MetaGroupOptions options_;
  job::Executor& executor_;
  trove::ReplicatedKeyval keyval_;
  std::unique_ptr<job::KeyvalContext> records_;
  std::unique_ptr<coord::Coordinator> coordinator_;
  group::ChannelLink link_;
  group::Member member_;
  group::MessageService service_;
  MetaGroupGauges gauges_;
  Actions actions_;
  job::Gate gate_;
  job::StopSource stopping_;
  bool started_ = false;
};

}  // namespace spate::assembly
