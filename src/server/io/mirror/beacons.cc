// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/beacons.h"

#include <algorithm>
#include <utility>

#include "server/io/mirror/primary_term.h"

namespace spate::io {
namespace {

/// A primary whose process is new asks the serving members whether their processes are new, too. If all are, the
/// primary need not wait for any of them.
bool gets_beacon(const MirrorGroup& group, const GroupMember& member) {
  if (member.target == group.self) return false;
  if (group.term != nullptr) return true;
  return group.fresh && group.is_primary() && member.state == MemberState::kServing;
}

}  // namespace

void Beacons::send(const MirrorGroups& groups) {
  std::map<ServerId, wire::MirrorBeaconRequest> all;
  for (const auto& [id, group] : groups) {
    const PrimaryTerm* const term = group->term.get();
    for (const GroupMember& member : group->record.members) {
      if (!gets_beacon(*group, member)) continue;
      wire::BeaconGroup beacon;
      beacon.record = group->record;
      if (term != nullptr) beacon.term = term->number();
      if (term != nullptr) beacon.done_below = term->forwarder().done_below();
      wire::MirrorBeaconRequest& request = all[server_of(member.target)];
      request.groups.push_back(std::move(beacon));
      if (request.groups.size() < wire::kMaxBeaconGroups) continue;
      job::spawn(gate_, send_to(server_of(member.target), std::exchange(request, {})));
    }
  }
  for (auto& [server, request] : all) {
    if (!request.groups.empty()) job::spawn(gate_, send_to(server, std::move(request)));
  }
}

job::Task<void> Beacons::ask_one(ServerId server, const DataGroup& record, MonoTime deadline, bool& later) {
  wire::MirrorBeaconRequest request;
  request.groups.resize(1);
  request.groups.front().record = record;
  rpc::CallOptions options;
  options.deadline = deadline;
  options.priority = wire::Priority::kControl;
  options.stop = stopping_;
  const auto reply =
      co_await host_.peers().call<wire::MirrorBeaconReply>(server, MirrorPeers::Lane::kBeacons, request, options);
  if (!reply || reply->groups.size() != 1) co_return;
  if ((reply->groups.front().flags & wire::BeaconAnswer::kKnowsLater) != 0) later = true;
}

job::Task<bool> Beacons::is_outdated(DataGroup record, TargetId self, Duration time) {
  bool later = false;
  job::Gate asking(host_.parts().executor);
  const MonoTime deadline = host_.parts().executor.now() + time;
  for (const GroupMember& member : record.members) {
    if (member.target != self) job::spawn(asking, ask_one(server_of(member.target), record, deadline, later));
  }
  co_await asking.close();
  co_return later;
}

job::Task<void> Beacons::send_to(ServerId server, wire::MirrorBeaconRequest request) {
  const MonoTime sent = host_.parts().executor.now();
  rpc::CallOptions options;
  options.deadline = sent + host_.timing().message;
  options.priority = wire::Priority::kControl;
  options.stop = stopping_;
  const auto reply =
      co_await host_.peers().call<wire::MirrorBeaconReply>(server, MirrorPeers::Lane::kBeacons, request, options);
  if (!reply || reply->groups.size() != request.groups.size()) co_return;
  for (std::size_t i = 0; i < request.groups.size(); ++i)
    note_answer(request.groups[i].record.id, server, reply->groups[i], sent);
}

void Beacons::note_answer(TargetId id, ServerId server, const wire::BeaconAnswer& answer, MonoTime sent) {
  MirrorGroup* const group = host_.find(id);
  if (group == nullptr) return;
  if ((answer.flags & wire::BeaconAnswer::kKnowsLater) != 0) host_.contradicted();
  if (group->term == nullptr) {
    if ((answer.flags & wire::BeaconAnswer::kFresh) != 0) group->fresh_others.insert(server);
    return;
  }
  for (const auto& [target, follower] : group->term->forwarder().followers()) {
    if (follower->server != server) continue;
    follower->heard = host_.parts().executor.now();
    follower->answers = true;
    follower->fresh = (answer.flags & wire::BeaconAnswer::kFresh) != 0;
    if (follower->fresh && follower->state == MemberState::kJoining) follower->failed = true;
    follower->lacks_all = (answer.flags & wire::BeaconAnswer::kLacksAll) != 0;
    follower->goes = (answer.flags & wire::BeaconAnswer::kLeaves) != 0;
    if ((answer.flags & wire::BeaconAnswer::kAcknowledged) != 0)
      follower->acknowledged = std::max(follower->acknowledged, sent);
  }
}

}  // namespace spate::io
