// SPDX-License-Identifier: Apache-2.0
// judge: compares datafiles that were found on io servers with the inodes.
#include <algorithm>
#include <set>

#include "dist/registry.h"
#include "server/meta/check/check.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

using wire::Verdict;

/// `slot` names the target on which the datafile was found.
bool names(const DataGroups& groups, const Layout& layout, const wire::SlotRef& slot) {
  if (slot.slot >= layout.slots.size()) return false;
  return std::ranges::any_of(layout.slots[slot.slot].targets, [&](TargetId named) {
    if (!is_group(named)) return named == slot.target;
    const DataGroup* const group = groups.find(named);
    return group != nullptr && group->find(slot.target) != nullptr;
  });
}

/// Judges a datafile of a file whose inode exists.
wire::Judgement judge_live(const DataGroups& groups, const InodeRecord& inode, const wire::DatafileFact& datafile) {
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
  SPATE_CO_TRY(const std::uint64_t next, co_await next_handle(operation));
  wire::MetaJudgeReply reply;
  for (const wire::DatafileFact& datafile : request.datafiles) {
    wire::Judgement& judgement = reply.judgements.emplace_back();
    const InodeState& inode = inodes.at(datafile.handle);
    if (inode.readable()) {
      judgement = judge_live(operation.core().data_groups(), inode.record, datafile);
    } else if (!inode.missing()) {
      judgement.verdict = Verdict::kUnreadable;
    } else if (leaving.contains(datafile.handle)) {
      judgement.verdict = Verdict::kBeingRemoved;
    } else {
      judgement.verdict = is_given(operation, next, datafile.handle) ? Verdict::kOrphan : Verdict::kNotGiven;
    }
  }
  co_return reply;
}

}  // namespace spate::meta
