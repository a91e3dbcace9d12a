// SPDX-License-Identifier: Apache-2.0
// cross_check: compares datafiles that were found on io servers with the inodes.
#include <algorithm>
#include <set>

#include "dist/registry.h"
#include "server/meta/check/check.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

using wire::Verdict;

/// `slot` names the target where the datafile was found.
bool names(const DataGroups& groups, const Layout& layout, const wire::SlotRef& slot) {
  if (slot.slot >= layout.slots.size()) return false;
  return std::ranges::any_of(layout.slots[slot.slot].targets, [&](TargetId named) {
    if (!is_group(named)) return named == slot.target;
    const DataGroup* const group = groups.find(named);
    return group != nullptr && group->find(slot.target) != nullptr;
  });
}

/// Whether the target is a member that has yet to learn of changes, so that what lies there may be out of date.
bool is_behind(const DataGroups& groups, TargetId target) {
  return std::ranges::any_of(groups.all(), [target](const auto& item) {
    const GroupMember* const member = item.second.find(target);
    return member != nullptr && member->state != MemberState::kServing;
  });
}

/// The targets of these datafiles that are behind.
std::set<TargetId> targets_behind(const DataGroups& groups, const std::vector<wire::DatafileFact>& datafiles) {
  std::set<TargetId> targets;
  for (const wire::DatafileFact& datafile : datafiles) targets.insert(datafile.slot.target);
  std::erase_if(targets, [&groups](TargetId target) { return !is_behind(groups, target); });
  return targets;
}

/// Checks a datafile of a file whose inode exists.
wire::Judgement cross_check_live(const DataGroups& groups, const InodeRecord& inode,
                                 const wire::DatafileFact& datafile) {
  if (!inode.is_regular() || !names(groups, *inode.layout, datafile.slot)) return {Verdict::kMisplaced, 0, 0};
  const Attributes& a = inode.attributes;
  if (!a.size_known || inode.truncating || inode.write_opens > 0) return {};
  const auto distribution = make_distribution(*inode.layout);
  if (!distribution || a.size > kMaxFileBytes) return {};
  if (datafile.size <= (*distribution)->physical_size(datafile.slot.slot, a.size)) return {};
  return {Verdict::kTooLong, a.version, a.size};
}

/// Those of `handles` whose datafiles are still to be removed.
job::Task<Result<std::set<Handle>>> dying(Operation& operation, std::vector<Bytes> keys) {
  const auto read = co_await operation.store().get_many(keys, trove::ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  std::set<Handle> handles;
  for (const trove::KeyValue& item : read.entries) handles.insert(Handle(parse_id_key(item.key).value_or(0)));
  co_return handles;
}

}  // namespace

Outcome<wire::MetaJudgeReply> meta_judge(Operation& operation, const wire::MetaJudgeRequest& request) {
  if (request.datafiles.size() > wire::kMaxJudged)
    co_return Error::told(Errc::kInvalidArgument, "at most 1024 datafiles");
  std::vector<Handle> handles;
  for (const wire::DatafileFact& datafile : request.datafiles) handles.push_back(datafile.handle);
  SPATE_CO_TRY(const InodeStates inodes, co_await inode_states(operation, std::move(handles)));
  std::vector<Bytes> removals;
  for (const auto& [handle, inode] : inodes) {
    if (inode.missing()) removals.push_back(removal_key(handle).bytes());
  }
  SPATE_CO_TRY(const std::set<Handle> leaving, co_await dying(operation, std::move(removals)));
  SPATE_CO_TRY(const CounterRecord given, co_await given_handles(operation));
  const DataGroups& groups = operation.core().data_groups();
  const std::set<TargetId> behind = targets_behind(groups, request.datafiles);
  wire::MetaJudgeReply reply;
  for (const wire::DatafileFact& datafile : request.datafiles) {
    wire::Judgement& judgement = reply.judgements.emplace_back();
    const InodeState& inode = inodes.at(datafile.handle);
    if (behind.contains(datafile.slot.target) && (inode.readable() || inode.missing())) {
      judgement.verdict = Verdict::kGood;  // it is brought up to date when its server is back
    } else if (inode.readable()) {
      judgement = cross_check_live(groups, inode.record, datafile);
    } else if (!inode.missing()) {
      judgement.verdict = Verdict::kUnreadable;
    } else if (leaving.contains(datafile.handle)) {
      judgement.verdict = Verdict::kBeingRemoved;
    } else {
      judgement.verdict = is_given(operation, given, datafile.handle) ? Verdict::kOrphan : Verdict::kNotGiven;
    }
  }
  co_return reply;
}

}  // namespace spate::meta
