// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/leftovers.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "server/io/mirror/member_changes.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

constexpr std::size_t kPageOfDatafiles = wire::kMaxJudged;
constexpr Duration kSweepPause = std::chrono::seconds(5);  // after one that has failed

}  // namespace

/// Whether others keep the group, and it is whole without this server.
bool Leftovers::is_left(const MirrorGroup& group) const {
  const ServerId self = server_of(parts_.targets.front().description.id);
  const auto is_here = [self](const GroupMember& member) { return server_of(member.target) == self; };
  return group.is_replaced() && std::ranges::none_of(group.record.members, is_here) && group.emptied &&
         group.accepted == group.record.epoch && group.record.is_whole();
}

bool Leftovers::lacks_nothing() const {
  return std::ranges::all_of(groups_, [](const auto& entry) {
    const MirrorGroup& group = *entry.second;
    return group.is_replaced() || (group.serves() && group.accepted == group.record.epoch && !group.fresh);
  });
}

bool Leftovers::is_due() const {
  if (running_ || parts_.executor.now() < next_) return false;
  const bool unswept = std::ranges::any_of(
      groups_, [this](const auto& entry) { return !entry.second->swept && is_left(*entry.second); });
  return unswept && lacks_nothing();
}

job::Task<void> Leftovers::sweep(GroupRecordClient& meta) {
  running_ = true;
  removed_ = 0;
  std::vector<MirrorGroup*> wanted;
  for (const auto& [id, group] : groups_) {
    if (!group->swept && is_left(*group)) wanted.push_back(group.get());
  }
  Result<void> done;
  for (Target& target : parts_.targets) {
    if (done) done = co_await sweep_target(target, meta);
  }
  if (done) {
    for (MirrorGroup* const group : wanted) group->swept = true;
  } else {
    next_ = parts_.executor.now() + kSweepPause;
    if (!stopping_.stopped())
      SPATE_LOG("server/io", info, "left over copies are looked for again later error={}", done.error());
  }
  if (removed_ > 0)
    SPATE_LOG("server/io", info, "copies that a loss of power had left over are removed datafiles={}", removed_);
  running_ = false;
}

job::Task<Result<void>> Leftovers::sweep_target(Target& target, GroupRecordClient& meta) {
  for (DatafileId after;;) {
    if (stopping_.stopped()) co_return Errc::kCancelled;
    SPATE_CO_TRY(const std::vector<DatafileId> page, target.description.storage.store().list(after, kPageOfDatafiles));
    if (page.empty()) co_return Result<void>();
    wire::MetaJudgeRequest request;
    for (const DatafileId& id : page) request.datafiles.push_back({id.handle, {id.slot, target.description.id}, 0});
    SPATE_CO_TRY(const wire::MetaJudgeReply reply, co_await meta.judge(request, stopping_));
    if (reply.judgements.size() != page.size()) co_return Error(Errc::kProtocol, "meta judge");
    for (std::size_t i = 0; i < page.size(); ++i) {
      if (reply.judgements[i].verdict != wire::Verdict::kMisplaced) continue;
      SPATE_CO_TRY(std::ignore, co_await look_at(target, page[i], meta));
    }
    after = page.back();
  }
}

job::Task<Result<void>> Leftovers::look_at(Target& target, DatafileId datafile, GroupRecordClient& meta) {
  auto file = co_await meta.attributes(datafile.handle, stopping_);
  if (file.code() == Errc::kNotFound) co_return Result<void>();
  if (!file) co_return std::move(file).error();
  if (!file->layout || datafile.slot >= file->layout->slots.size()) co_return Result<void>();
  const TargetId named = file->layout->slots[datafile.slot].targets.front();
  const auto group = groups_.find(named);
  if (!is_group(named) || group == groups_.end()) co_return Result<void>();
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(target, background, datafile, stopping_));
  if (stat.mtime < file->attributes.btime) co_return Result<void>();
  auto removed = co_await remove(*group->second, target, datafile);
  co_return removed;
}

/// Whether this server counts the datafile among those of a group in which it is a member.
job::Task<Result<bool>> Leftovers::is_listed(DatafileId datafile) {
  job::Transaction transaction = parts_.keyval.begin();
  for (const auto& [id, group] : groups_) {
    if (group->is_replaced()) continue;
    const auto read = co_await transaction.get(group_datafile_key(id, datafile), trove::ReadMode::kSnapshot);
    if (read.status != Errc::kOk) co_return read.status;
    if (read.value) co_return true;
  }
  co_return false;
}

/// While this holds the turn, the server does not become a member of the group again.
job::Task<Result<void>> Leftovers::remove(MirrorGroup& group, Target& target, DatafileId datafile) {
  SPATE_CO_TRY(const auto turn, co_await group.accept_turn.acquire(1, stopping_));
  SPATE_CO_TRY(const bool listed, co_await is_listed(datafile));
  if (listed || !is_left(group)) co_return Result<void>();
  SPATE_CO_TRY(std::ignore, co_await remove_copy(parts_, target, datafile));
  ++removed_;
  co_return Result<void>();
}

}  // namespace spate::io
