// SPDX-License-Identifier: Apache-2.0
#include "fsck/copies.h"

#include <algorithm>

#include "wire/meta_messages.h"
#include "wire/mirror_messages.h"

namespace spate::fsck {
namespace {

constexpr std::uint32_t kCopiesListed = 1024;
constexpr std::uint32_t kCopiesListRoom = kCopiesListed * 32 + 4096;
constexpr std::uint32_t kGroupsRoom = 1U << 20U;
/// Copies of a file that is being written may differ for a moment. They are unequal if they differ at each look.
constexpr int kLooks = 4;
constexpr Duration kLookPause = std::chrono::milliseconds(500);
constexpr std::size_t kMostWrong = wire::kMaxProbed;  // copies that wait to be made anew

/// A missing datafile is the same as an empty one.
std::uint64_t size_of(const wire::DatafilePresence& datafile) { return datafile.present ? datafile.size : 0; }

const std::string kWhichIsRight =
    "reads return the copy of the group's primary, and Spate cannot say whether that is the right one: `spate fsck "
    "--contents --repair --trust TARGET` replaces the other one by that on TARGET (docs/fsck.md, \"By hand\")";

wire::Finding finding_of(wire::Damage damage, const CopyPair& pair, std::uint64_t recorded, std::uint64_t actual) {
  wire::Finding finding;
  finding.damage = damage;
  finding.handle = pair.handle;
  finding.slot = {pair.slot, pair.there};
  finding.recorded = recorded;
  finding.actual = actual;
  return finding;
}

}  // namespace

job::Task<Result<void>> CopyCheck::learn_groups() {
  groups_.clear();
  wire::DataGroupsRequest request;
  for (bool more = true; more;) {
    auto reply = co_await servers_.ask_meta<wire::DataGroupsReply>(request, kGroupsRoom);
    if (reply.code() == Errc::kNotSupported) co_return Result<void>();  // an older meta server has no groups
    if (!reply) co_return std::move(reply).error();
    more = reply->more && !reply->groups.empty();
    for (DataGroup& group : reply->groups) {
      request.after = group.id;
      groups_.insert_or_assign(group.id, std::move(group));
    }
  }
  co_return Result<void>();
}

job::Task<Result<void>> CopyCheck::run(unsigned pass) {
  pass_ = pass;
  SPATE_CO_TRY(std::ignore, co_await learn_groups());
  SPATE_CO_TRY(std::ignore, check_trusted());
  if (groups_.empty()) co_return Result<void>();
  note_absent();
  const ClusterMap map = servers_.map();
  for (const ServerEntry& server : map.servers) {
    for (const TargetId target : server.targets) {
      SPATE_CO_TRY(std::ignore, co_await check_target(server.id, target));
    }
  }
  SPATE_CO_TRY(std::ignore, co_await make_anew(true));
  auto guarded = co_await guard_sizes();
  note_absent();
  tell_absent();
  co_return guarded;
}

/// Copies of a member that does not serve may be out of date. They are compared with nothing.
void CopyCheck::note_absent() {
  for (const auto& [id, group] : groups_) {
    for (const GroupMember& member : group.members) {
      if (member.state != MemberState::kServing) absent_[member.target].insert(id);
    }
  }
}

void CopyCheck::tell_absent() {
  for (const auto& [target, groups] : absent_) {
    const ServerId server = servers_.server_of(target);
    const std::string number = "target " + std::to_string(target.value);
    unchecked_.push_back((server ? servers_.name_of(server) + ", " : std::string()) + number +
                         ": it is not up to date, so its copies of files of " + std::to_string(groups.size()) +
                         (groups.size() == 1 ? " group" : " groups") + " were compared with nothing");
  }
}

Result<void> CopyCheck::check_trusted() const {
  for (const Trusted& trusted : options_.trusted) {
    const bool found = std::ranges::any_of(
        groups_, [&trusted](const auto& entry) { return entry.second.find(trusted.target) != nullptr; });
    if (!found)
      return Error::told(Errc::kInvalidArgument, "no mirrored file has a copy on target " +
                                                     std::to_string(trusted.target.value) + ", which --trust names");
  }
  return {};
}

/// A member of which not all copies were compared does not become the primary.
void CopyCheck::leave_unchecked(TargetId target, const Error& error) {
  const std::string text = "copies on target " + std::to_string(target.value) + ": " + error.message();
  if (std::ranges::find(unchecked_, text) == unchecked_.end()) unchecked_.push_back(text);
  for (const auto& [id, group] : groups_) {
    if (group.find(target) != nullptr) repair_.distrust({id, target}, "not all of its copies could be checked");
  }
}

job::Task<Result<void>> CopyCheck::check_target(ServerId server, TargetId target) {
  wire::DatafileListRequest request;
  request.target = target;
  request.max = std::min(kCopiesListed, options_.page * 4);
  for (bool more = true; more;) {
    auto reply = co_await servers_.ask_io<wire::DatafileListReply>(server, request, kCopiesListRoom);
    if (reply && reply->datafiles.empty() && !reply->end) reply = Error(Errc::kProtocol, "a list that does not go on");
    if (!reply) leave_unchecked(target, reply.error());
    if (!reply || reply->datafiles.empty()) co_return Result<void>();
    SPATE_CO_TRY(std::ignore, co_await check_page(reply->datafiles, target));
    more = !reply->end;
    request.after_handle = reply->datafiles.back().handle;
    request.after_slot = reply->datafiles.back().slot.slot;
  }
  co_return Result<void>();
}

job::Task<Result<std::optional<Layout>>> CopyCheck::layout_of(Handle handle) {
  const auto known = layouts_.find(handle);
  if (known != layouts_.end()) co_return known->second;
  wire::GetattrRequest request;
  request.handle = handle;
  auto reply = co_await servers_.ask_meta<wire::GetattrReply>(request);
  std::optional<Layout> layout;
  if (reply) layout = std::move(reply->layout);
  const Errc code = reply.code();
  const bool gone = code == Errc::kNotFound || code == Errc::kStaleHandle;
  const bool unreadable = code == Errc::kCorrupt || code == Errc::kFormatTooNew;  // the scan of inodes reports it
  if (!reply && !gone && !unreadable) co_return std::move(reply).error();
  layouts_.emplace(handle, layout);
  co_return layout;
}

job::Task<Result<std::vector<CopyPair>>> CopyCheck::pairs_of(wire::DatafileRef datafile, TargetId target) {
  std::vector<CopyPair> pairs;
  SPATE_CO_TRY(const std::optional<Layout> layout, co_await layout_of(datafile.handle));
  const std::uint32_t slot = datafile.slot.slot;
  if (!layout || layout->redundancy == Redundancy::kNone || slot >= layout->slots.size()) co_return pairs;
  const auto group = groups_.find(layout->slots[slot].targets.front());
  if (group == groups_.end() || !group->second.serves(target)) co_return pairs;
  for (const GroupMember& member : group->second.members) {
    const bool of_primary = target == group->second.primary || member.target == group->second.primary;
    if (member.target != target && member.state == MemberState::kServing && of_primary)
      pairs.push_back({datafile.handle, slot, group->first, target, member.target});
  }
  co_return pairs;
}

job::Task<Result<CopyCheck::Presences>> CopyCheck::look_at(TargetId target, std::vector<wire::DatafileRef> datafiles) {
  Presences found;
  for (std::size_t begin = 0; begin < datafiles.size(); begin += wire::kMaxProbed) {
    wire::DatafileProbeRequest request;
    const std::size_t end = std::min(datafiles.size(), begin + wire::kMaxProbed);
    request.datafiles.assign(datafiles.begin() + static_cast<std::ptrdiff_t>(begin),
                             datafiles.begin() + static_cast<std::ptrdiff_t>(end));
    for (wire::DatafileRef& datafile : request.datafiles) datafile.slot.target = target;
    const ServerId server = servers_.server_of(target);
    if (!server) co_return Errc::kStaleMap;  // the map has no server for this target
    SPATE_CO_TRY(const auto reply, co_await servers_.ask_io<wire::DatafileProbeReply>(server, request));
    if (reply.datafiles.size() != end - begin) co_return Error(Errc::kProtocol, "datafile probe");
    found.insert(found.end(), reply.datafiles.begin(), reply.datafiles.end());
  }
  co_return found;
}

job::Task<Result<void>> CopyCheck::check_page(const std::vector<wire::DatafileRef>& page, TargetId target) {
  layouts_.clear();
  std::map<TargetId, std::vector<CopyPair>> by_member;
  for (const wire::DatafileRef& datafile : page) {
    SPATE_CO_TRY(const std::vector<CopyPair> pairs, co_await pairs_of(datafile, target));
    for (const CopyPair& pair : pairs) by_member[pair.there].push_back(pair);
  }
  for (const auto& [there, pairs] : by_member) {
    std::vector<wire::DatafileRef> datafiles;
    for (const CopyPair& pair : pairs) datafiles.push_back({pair.handle, {pair.slot, target}});
    const auto all_here = co_await look_at(target, datafiles);
    const auto all_there = co_await look_at(there, datafiles);
    if (!all_here) leave_unchecked(target, all_here.error());
    if (!all_there) leave_unchecked(there, all_there.error());
    if (!all_here || !all_there) continue;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool lost = !(*all_there)[i].present;
      if (!is_primary(pairs[i], target) && !lost) continue;  // compared the other way round
      if (size_of((*all_here)[i]) != size_of((*all_there)[i])) {
        SPATE_CO_TRY(std::ignore, co_await look_again(pairs[i]));
      } else if (options_.contents) {
        SPATE_CO_TRY(std::ignore, co_await compare_contents(pairs[i], size_of((*all_here)[i])));
      }
    }
  }
  if (wrong_.size() >= kMostWrong) {
    SPATE_CO_TRY(std::ignore, co_await make_anew(false));
  }
  auto room = co_await queue_.make_room();
  co_return room;
}

job::Task<bool> CopyCheck::differ(const CopyPair& pair) {
  const std::vector<wire::DatafileRef> one(1, wire::DatafileRef{pair.handle, {pair.slot, pair.here}});
  const auto here = co_await look_at(pair.here, one);
  const auto there = co_await look_at(pair.there, one);
  if (!here) leave_unchecked(pair.here, here.error());
  if (!there) leave_unchecked(pair.there, there.error());
  if (!here || !there) co_return false;
  here_ = here->front();
  there_ = there->front();
  co_return size_of(here_) != size_of(there_);
}

job::Task<Result<void>> CopyCheck::look_again(CopyPair pair) {
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::ignore = co_await servers_.executor().sleep(kLookPause, {});
    const bool unequal = co_await differ(pair);
    if (!unequal) co_return Result<void>();
  }
  SPATE_CO_TRY(const bool counts, co_await is_pair(pair));
  const wire::Damage damage = there_.present ? wire::Damage::kUnequalCopies : wire::Damage::kMissingCopy;
  // A missing copy is found by way of the one that exists.
  if (counts && here_.present && (is_primary(pair, pair.here) || !there_.present))
    suspect(finding_of(damage, pair, size_of(here_), size_of(there_)), pair, {});
  co_return Result<void>();
}

/// Whether both copies still count: one of the members may have stopped serving, or the file may have been removed.
job::Task<Result<bool>> CopyCheck::is_pair(CopyPair pair) {
  SPATE_CO_TRY(std::ignore, co_await learn_groups());
  layouts_.erase(pair.handle);
  const wire::DatafileRef datafile{pair.handle, {pair.slot, pair.here}};
  SPATE_CO_TRY(const std::vector<CopyPair> pairs, co_await pairs_of(datafile, pair.here));
  co_return std::ranges::any_of(pairs, [&pair](const CopyPair& other) { return other.there == pair.there; });
}

/// Each pair once: the primary's copy with each other one.
job::Task<Result<void>> CopyCheck::compare_contents(CopyPair pair, std::uint64_t size) {
  if (!is_primary(pair, pair.here)) co_return Result<void>();
  observer_.progress({pass_, Phase::kContents, ++compared_, 0});
  const auto part = co_await contents_.unequal_part(pair, size);
  if (!part) {
    const std::string trouble = servers_.name_of(servers_.server_of(pair.here)) + " or " +
                                servers_.name_of(servers_.server_of(pair.there)) +
                                ": contents: " + part.error().message();
    if (std::ranges::find(unchecked_, trouble) == unchecked_.end()) unchecked_.push_back(trouble);
    co_return Result<void>();
  }
  if (!*part) co_return Result<void>();
  SPATE_CO_TRY(const bool counts, co_await is_pair(pair));
  if (!counts) co_return Result<void>();
  const std::string others = co_await tell_others(pair, **part);
  suspect(finding_of(wire::Damage::kUnequalContents, pair, (*part)->offset, (*part)->size), pair, others);
  co_return Result<void>();
}

/// Names the one of two different copies with which each copy on a further target agrees in this part.
job::Task<std::string> CopyCheck::tell_others(CopyPair pair, Extent part) {
  std::string text;
  const auto group = groups_.find(pair.group);
  if (group == groups_.end()) co_return text;
  for (const GroupMember& member : std::vector<GroupMember>(group->second.members)) {
    if (member.target == pair.here || member.target == pair.there || member.state != MemberState::kServing) continue;
    const auto alike = co_await contents_.alike(pair, part, member.target);
    if (!alike) continue;
    text += "the copy on target " + std::to_string(member.target.value);
    text += *alike ? " has the same bytes as that on target " + std::to_string((*alike)->value) : " differs from both";
    text += "; ";
  }
  co_return text;
}

bool CopyCheck::is_primary(const CopyPair& pair, TargetId target) const {
  const auto group = groups_.find(pair.group);
  return group != groups_.end() && group->second.primary == target;
}

bool CopyCheck::trusts(TargetId target, Handle handle) const {
  return std::ranges::any_of(options_.trusted, [&](const Trusted& trusted) {
    return trusted.target == target && (!trusted.handle || trusted.handle == handle);
  });
}

/// `pair.there` is the copy that the finding names.
void CopyCheck::suspect(wire::Finding finding, CopyPair pair, const std::string& others) {
  queue_.leave_size(finding.handle);
  const bool lost = finding.damage == wire::Damage::kMissingCopy;
  const bool decided = trusts(pair.here, pair.handle) != trusts(pair.there, pair.handle);
  if (!lost && decided && trusts(pair.there, pair.handle)) {
    std::swap(pair.here, pair.there);
    finding.slot.target = pair.there;
    if (finding.damage == wire::Damage::kUnequalCopies) std::swap(finding.recorded, finding.actual);
  }
  if (!lost && !decided) {
    const std::string file = "object " + std::to_string(pair.handle.value);
    repair_.distrust({pair.group, pair.there}, "its copy of " + file + " differs, and nobody has said which is right");
  }
  if (!options_.repair || (!lost && !decided)) {
    queue_.suspect(std::move(finding), lost || decided ? std::string() : others + kWhichIsRight);
    return;
  }
  const bool known = std::ranges::any_of(wrong_, [&pair](const WrongCopy& copy) {
    return copy.pair.handle == pair.handle && copy.pair.slot == pair.slot && copy.pair.there == pair.there;
  });
  if (known) return;
  if (wrong_.size() >= options_.max_findings) {
    queue_.overflow();
    repair_.distrust({pair.group, pair.there}, "there were too many findings at once");
    return;
  }
  wrong_.push_back({pair, std::move(finding), Outcome::kLeft, {}, is_primary(pair, pair.there)});
}

job::Task<Result<void>> CopyCheck::make_anew(bool all) {
  std::vector<WrongCopy> wrong;
  std::vector<WrongCopy> later;
  for (WrongCopy& copy : wrong_) (all || !copy.of_primary ? wrong : later).push_back(std::move(copy));
  wrong_ = std::move(later);
  SPATE_CO_TRY(std::ignore, co_await repair_.run(wrong, pass_));
  for (WrongCopy& copy : wrong) queue_.conclude(std::move(copy.finding), copy.outcome, std::move(copy.note));
  co_return Result<void>();
}

job::Task<Result<void>> CopyCheck::guard_sizes() {
  layouts_.clear();
  SPATE_CO_TRY(std::ignore, co_await learn_groups());
  for (const Handle handle : queue_.wrong_sizes()) {
    SPATE_CO_TRY(const std::string why, co_await why_to_leave_size(handle));
    if (!why.empty()) queue_.leave_size(handle, "its size is not set: " + why);
  }
  co_return Result<void>();
}

/// Empty: each copy of the file is there, and equal to the others.
job::Task<Result<std::string>> CopyCheck::why_to_leave_size(Handle handle) {
  SPATE_CO_TRY(const std::optional<Layout> layout, co_await layout_of(handle));
  if (!layout || layout->redundancy == Redundancy::kNone) co_return std::string();
  for (std::size_t slot = 0; slot < layout->slots.size(); ++slot) {
    const auto group = groups_.find(layout->slots[slot].targets.front());
    if (group == groups_.end()) co_return std::string("the record of a group of its copies is missing");
    std::optional<wire::DatafilePresence> first;
    for (const GroupMember& member : group->second.members) {
      const std::string copy = "the copy on target " + std::to_string(member.target.value);
      if (member.state != MemberState::kServing) co_return copy + " is not up to date: run fsck again when it is";
      const wire::SlotRef place{static_cast<std::uint32_t>(slot), member.target};
      const std::vector<wire::DatafileRef> one(1, wire::DatafileRef{handle, place});
      const auto found = co_await look_at(member.target, one);
      if (!found) co_return copy + " cannot be looked at: " + found.error().message();
      const wire::DatafilePresence& here = found->front();
      if (first && (first->present != here.present || first->size != here.size))
        co_return copy + " differs from another one: that is repaired first";
      first = here;
    }
  }
  co_return std::string();
}

}  // namespace spate::fsck
