// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/mirrors.h"

#include <algorithm>

#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/io/mirror/group_notes.h"

namespace spate::io {
namespace {

constexpr Duration kListPause = std::chrono::seconds(1);
constexpr Duration kNoGroups = std::chrono::seconds(2);        // how often a server without groups looks for some
constexpr Duration kUnheard = std::chrono::milliseconds(100);  // and until the meta server has answered once
constexpr Duration kAskPause = std::chrono::milliseconds(100);
constexpr std::size_t kMostAsked = 1024;
constexpr Duration kHandOver = std::chrono::seconds(1);  // at most
constexpr Duration kHandOverLook = std::chrono::milliseconds(5);
constexpr Duration kLinger = std::chrono::milliseconds(200);

/// Whether the record has a target of this server, be it a storage folder that the server still has or not.
bool names_server(const DataGroup& record, ServerId server) {
  return std::ranges::any_of(record.members, [server](const auto& m) { return server_of(m.target) == server; });
}

/// Whether a member's server is not known yet.
bool is_map_short(const MirrorGroups& groups, const MirrorPeers& peers) {
  for (const auto& [id, group] : groups) {
    for (const GroupMember& member : group->record.members) {
      if (!peers.knows(server_of(member.target))) return true;
    }
  }
  return false;
}

}  // namespace

Mirrors::Mirrors(Parts& parts, metrics::Registry& metrics)
    : parts_(parts),
      started_(parts.executor.now()),
      pace_(parts.executor, parts.options.rebuild_rate, metrics),
      wake_(timing_.lease, parts.executor.now()),
      group_records_log_(parts.executor.clock()),
      woken_(parts.executor),
      member_(*this, parts, stopping_, metrics),
      replacer_(*this),
      beacons_(*this, stopping_, gate_),
      gauges_(metrics),
      gate_(parts.executor) {}

Mirrors::~Mirrors() = default;

job::Task<Result<void>> Mirrors::load() {
  SPATE_CO_TRY(const std::vector<GroupNote> notes, co_await load_group_notes(parts_.keyval));
  for (const GroupNote& note : notes) {
    const bool named = names_server(note.record, server_of(parts_.targets.front().description.id));
    MirrorGroup* const group = named ? find_or_make(note.record) : make(note.record, nullptr);
    if (group == nullptr) continue;  // the target is no storage folder of this server any more
    group->accepted = note.record.epoch;
    group->history = note.record.history();
    group->fresh = true;
    group->lacks_all = note.lacks_all;
    group->rebooted = note.boot != parts_.options.boot;
    group->half_joined = group->state_of(group->self) == MemberState::kJoining;
    SPATE_CO_TRY(std::ignore, co_await group->log.load());
  }
  co_return Result<void>();
}

void Mirrors::start(const RegistrationOptions& options, job::NetworkContext& network, Random& random) {
  self_ = options.self.id;
  identity_ = identity_of(options, parts_.options.fs);
  group_records_ = std::make_unique<GroupRecordClient>(options.meta, network, identity_, random);
  peers_ = std::make_unique<MirrorPeers>(network, identity_, random);
  wake_.look(parts_.executor.now());
  job::spawn(gate_, run());
}

job::Task<void> Mirrors::hand_over() {
  if (group_records_ == nullptr || groups_.empty()) co_return;
  leaving_ = true;
  job::DeadlineScope scope(parts_.executor, parts_.executor.now() + kHandOver, stopping_);
  while (!is_handed_over()) {
    for (const auto& [id, group] : groups_) {  // also those that others have just handed to this server
      const bool leads = group->is_primary() && group->record.serving() > 1;
      if (leads && !group->hands_over) job::spawn(gate_, hand_over_one(*group));
    }
    const auto slept = co_await parts_.executor.sleep(kHandOverLook, scope.token());
    if (!slept) break;
  }
  // A client that has just asked here is still told who leads now; it would find nobody otherwise.
  if (is_handed_over()) std::ignore = co_await parts_.executor.sleep(kLinger, scope.token());
}

bool Mirrors::is_handed_over() const {
  return std::ranges::all_of(groups_, [](const auto& entry) {
    const MirrorGroup& group = *entry.second;
    const bool alone = group.is_primary() && group.record.serving() == 1;
    return group.fresh || !group.serves() || alone;
  });
}

void Mirrors::leave() {
  stopping_.request_stop();
  for (const auto& [id, group] : groups_) {
    if (group->term != nullptr) group->term->halt();
  }
}

job::Task<void> Mirrors::stop() {
  leave();
  for (const auto& [id, group] : groups_) {
    if (const auto term = std::move(group->term)) co_await term->end();
  }
  co_await gate_.close();
}

Result<std::shared_ptr<PrimaryTerm>> Mirrors::leading(TargetId id) {
  const MirrorGroup* const group = find(id);
  if (group != nullptr && group->term != nullptr && group->term->leads()) return group->term;
  if (group == nullptr && group_records_ != nullptr && asked_for_.size() < kMostAsked) {
    asked_for_.insert(id);
    woken_.set();
  }
  return Error::told(Errc::kNotPrimary, "this server does not lead group " + std::to_string(id.value) + " now");
}

MirrorGroup* Mirrors::find(TargetId group) {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : found->second.get();
}

Target* own_member(Parts& parts, const DataGroup& record) {
  for (Target& target : parts.targets) {
    if (record.find(target.description.id) != nullptr) return &target;
  }
  return nullptr;
}

/// Null if no target of this server is a member.
MirrorGroup* Mirrors::find_or_make(const DataGroup& record) {
  if (MirrorGroup* const known = find(record.id)) return known;
  Target* const target = own_member(parts_, record);
  return target == nullptr ? nullptr : make(record, target);
}

/// `target`: the member; null: other servers have taken the places of this one's targets, which may still have copies.
MirrorGroup* Mirrors::make(const DataGroup& record, Target* target) {
  Target& its_target = target != nullptr ? *target : parts_.targets.front();
  auto group = std::make_unique<MirrorGroup>(parts_.executor, parts_.keyval, its_target, record.id);
  group->record = record;
  parts_.marks.note_group(record.id);
  // The first primary of a group makes all members note the group before anything is written. So if the epoch is a
  // later one and this member has no note, its store is new.
  group->fresh = group->lacks_all = record.epoch > 1;
  woken_.set();
  return groups_.emplace(record.id, std::move(group)).first->second.get();
}

job::Task<void> Mirrors::run() {
  while (!stopping_.stopped()) {
    look();
    if (!groups_.empty() || !asked_for_.empty()) {
      const auto slept = co_await parts_.executor.sleep(timing_.look, stopping_);
      if (!slept) co_return;
    } else {
      woken_.reset();
      const Duration pause = heard_ ? kNoGroups : kUnheard;
      job::DeadlineScope scope(parts_.executor, parts_.executor.now() + pause, stopping_);
      std::ignore = co_await woken_.wait(scope.token());
    }
  }
}

void Mirrors::look() {
  const MonoTime now = parts_.executor.now();
  if (wake_.look(now)) lists_from_ = now;
  if (!reading_) job::spawn(gate_, read_records());
  if (now >= beacons_from_) {
    beacons_from_ = now + timing_.beacon;
    beacons_.send(groups_);
  }
  for (const auto& [id, group] : groups_) {
    if (!group->minded) job::spawn(gate_, mind(*group));
  }
  gauges_.show(groups_);
}

job::Task<void> Mirrors::fetch_map() {
  auto map = co_await group_records_->map(stopping_);
  if (map) peers_->set_map(*std::move(map));
}

/// Asks the meta server for the records that may be unknown or out of date here.
job::Task<void> Mirrors::read_records() {
  reading_ = true;
  const MonoTime now = parts_.executor.now();
  if (is_map_short(groups_, *peers_) && now >= maps_from_) {
    maps_from_ = now + timing_.read_record;
    co_await fetch_map();
  }
  const std::uint64_t sleeps = wake_.sleeps();
  const bool lists = now >= lists_from_;
  Result<std::vector<DataGroup>> found = std::vector<DataGroup>();
  if (lists) {
    found = co_await group_records_->of_server(self_, stopping_);
    heard_ = heard_ || found || found.code() == Errc::kNotSupported;  // a version without groups
    lists_from_ = parts_.executor.now() + (heard_ ? kListPause : kUnheard);
  } else if (!asked_for_.empty() && now >= asks_from_) {
    std::vector<TargetId> wanted(asked_for_.begin(), asked_for_.end());
    asked_for_.clear();
    asks_from_ = now + kAskPause;
    found = co_await group_records_->read(std::move(wanted), stopping_);
  } else if (now >= reads_from_) {
    reads_from_ = now + (doubt_ ? kAskPause : timing_.read_record);
    std::vector<TargetId> wanted;
    for (const auto& [id, group] : groups_) {
      if (group->is_replaced() && group->emptied) continue;  // it is of no concern here any more
      const bool silent = !group->is_primary() && group->heard + timing_.read_record < now;
      if (doubt_ || group->fresh || silent) wanted.push_back(id);
    }
    doubt_ = false;
    found = co_await group_records_->read(std::move(wanted), stopping_);
  }
  if (found) {
    for (const DataGroup& record : *found) {
      const MirrorGroup* const group = learn(record);
      // The question may have been on its way when a change was made. The meta server sees to that.
      if (group != nullptr && record.epoch < group->accepted && !planted(Defect::kOldRecordBelieved))
        job::spawn(gate_, report(record.id));
    }
    if (lists) wake_.has_read(sleeps);
  } else if (groups_.empty() && asked_for_.empty()) {
    // Nothing is missing, or the meta server is of a version without groups.
  } else if (const auto more = group_records_log_.admit()) {
    SPATE_LOG("server/io", warn, "the records of groups cannot be read now error={}{}", found.error(), *more);
  }
  reading_ = false;
}

}  // namespace spate::io
