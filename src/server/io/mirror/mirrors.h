// SPDX-License-Identifier: Apache-2.0
// Mirrors: the groups that targets of this server belong to (docs/availability.md, "Mirrored data").
#pragma once

#include <map>
#include <memory>
#include <set>

#include "group/timing.h"
#include "group/wake_check.h"
#include "job/gate.h"
#include "server/io/mirror/beacons.h"
#include "server/io/mirror/group_gauges.h"
#include "server/io/mirror/group_record_client.h"
#include "server/io/mirror/member.h"
#include "server/io/mirror/member_replacer.h"
#include "server/io/mirror/mirror_group.h"
#include "server/io/mirror/primary_term.h"
#include "server/io/parts.h"
#include "server/io/registration.h"

namespace spate::io {

/// The first of the targets that is a member of the group; null if none is.
Target* own_member(Parts& parts, const DataGroup& record);

/// The groups that targets of this server belong to: it accepts their records as a member, and takes over as the
/// primary.
///
/// Life cycle: construct -> load() awaited -> start() -> leave(), when the server begins to stop -> stop() awaited ->
/// destroyed. Without start() it knows no groups but those of load(), and leads none. After leave() requests for groups
/// fail with kNotPrimary. stop() tells all terms and the background work to end, and waits for both.
///
/// One executor; pinned. The parts of the server outlive it.
class Mirrors final : public MirrorHost {
 public:
  explicit Mirrors(Parts& parts, metrics::Registry& metrics);
  ~Mirrors() override;
  Mirrors(const Mirrors&) = delete;
  Mirrors& operator=(const Mirrors&) = delete;

  /// Reads what an earlier process has left.
  job::Task<Result<void>> load();
  void start(const RegistrationOptions& options, job::NetworkContext& network, Random& random);
  /// Makes other members lead this server's groups and stop waiting for this member, because the process is about to
  /// end. Ends when they have done so, or after a second. Requests are still answered.
  job::Task<void> hand_over();
  /// Ends the work for groups. From now on this server leads none.
  void leave();
  job::Task<void> stop();

  /// The term of this group if it leads now; otherwise kNotPrimary. If the group is not known, a task asks the meta
  /// server for it, so that a later call may find it.
  Result<std::shared_ptr<PrimaryTerm>> leading(TargetId group);

  /// Answers the requests of other members.
  MirrorMember& member() { return member_; }

  Parts& parts() override { return parts_; }
  MirrorPeers& peers() override { return *peers_; }
  const group::Timing& timing() const override { return timing_; }
  CopyPace& pace() override { return pace_; }
  job::Task<void> change_record(MirrorGroup& group, RecordChange what, job::StopToken stop) override;
  job::Task<void> fetch_map() override;
  void contradicted() override { doubt_ = true; }
  MirrorGroup* find(TargetId group) override;
  MirrorGroup* learn(const DataGroup& record) override;
  job::Task<Result<void>> accept(MirrorGroup& group) override;
  bool is_awake() const override { return parts_.executor.now() < wake_.awake_until(); }
  bool is_leaving() const override { return leaving_; }

 private:
  MirrorGroup* find_or_make(const DataGroup& record);
  MirrorGroup* make(const DataGroup& record, Target* target);

  // Background work (mirrors.cc).
  job::Task<void> run();
  void look();
  job::Task<void> read_records();

  // The life of a group (mirrors_groups.cc).
  job::Task<void> mind(MirrorGroup& group);
  void mind_members(PrimaryTerm& term);
  bool must_take_over(const MirrorGroup& group) const;
  job::Task<bool> others_know_better(MirrorGroup& group);
  job::Task<void> take_over(MirrorGroup& group);
  job::Task<bool> ask_for_place(MirrorGroup& group, const wire::ChangeGroupRequest& request);
  job::Task<void> report(TargetId group);
  void begin_term(MirrorGroup& group);
  job::Task<void> serve_term(std::shared_ptr<PrimaryTerm> term, std::vector<ChangedRegion> doubtful,
                             MonoTime serves_from);
  job::Task<void> hand_over_one(MirrorGroup& group);
  bool is_handed_over() const;
  job::Task<void> accept_later(MirrorGroup& group);
  job::Task<Result<void>> accept_now(MirrorGroup& group, DataGroup record);
  job::Task<Result<void>> take_place(MirrorGroup& group, const DataGroup& record);
  job::Task<Result<void>> empty(MirrorGroup& group);
  job::Task<void> drop_copy(MirrorGroup& group);

  friend struct IoServiceTestAccess;

  Parts& parts_;
  const group::Timing timing_;
  const MonoTime started_;
  rpc::Identity identity_;
  std::unique_ptr<GroupRecordClient> group_records_;  // null: not started
  std::unique_ptr<MirrorPeers> peers_;
  ServerId self_;
  CopyPace pace_;
  MirrorGroups groups_;
  std::set<TargetId> asked_for_;  // unknown groups that requests name
  bool leaving_ = false;          // the process is about to end
  bool doubt_ = false;            // some record may be out of date
  bool reading_ = false;
  bool heard_ = false;  // the meta server has answered: it knows that this server keeps groups
  group::WakeCheck wake_;
  MonoTime asks_from_;
  MonoTime reads_from_;
  MonoTime lists_from_;
  MonoTime maps_from_;
  MonoTime beacons_from_;
  log::RateLimit group_records_log_;
  job::Event woken_;  // set when there is something to look at
  job::StopSource stopping_;
  MirrorMember member_;
  MemberReplacer replacer_;
  Beacons beacons_;
  GroupGauges gauges_;
  job::Gate gate_;
};

}  // namespace spate::io
