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
    "reads return the copy of the group's primary, and Spate cannot say whether that is the right one: with --repair "
    "--trust TARGET the other one is made anew from it (docs/fsck.md, \"By hand\")";

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
  if (groups_.empty()) co_return Result<void>();
  const ClusterMap map = servers_.map();
  for (const ServerEntry& server : map.servers) {
    for (const TargetId target : server.targets) {
      SPATE_CO_TRY(std::ignore, co_await check_target(server.id, target));
    }
  }
  auto made = co_await make_anew();
  co_return made;
}

job::Task<Result<void>> CopyCheck::check_target(ServerId server, TargetId target) {
  wire::DatafileListRequest request;
  request.target = target;
  request.max = std::min(kCopiesListed, options_.page * 4);
  for (bool more = true; more;) {
    const auto reply = co_await servers_.ask_io<wire::DatafileListReply>(server, request, kCopiesListRoom);
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
  layouts_.emplace(handle, layout);
  co_return layout;  // nothing: the file is gone, or its inode cannot be read; other checks report that
}

job::Task<Result<std::vector<CopyPair>>> CopyCheck::pairs_of(wire::DatafileRef datafile, TargetId target) {
  std::vector<CopyPair> pairs;
  SPATE_CO_TRY(const std::optional<Layout> layout, co_await layout_of(datafile.handle));
  const std::uint32_t slot = datafile.slot.slot;
  if (!layout || layout->redundancy == Redundancy::kNone || slot >= layout->slots.size()) co_return pairs;
  const auto group = groups_.find(layout->slots[slot].targets.front());
  if (group == groups_.end() || !group->second.serves(target)) co_return pairs;
  for (const GroupMember& member : group->second.members) {
    if (member.target != target && member.state == MemberState::kServing)
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
    const auto reply = co_await servers_.ask_io<wire::DatafileProbeReply>(server, request);
    if (!reply) co_return Error(reply.error());
    if (reply->datafiles.size() != end - begin) co_return Error(Errc::kProtocol, "datafile probe");
    found.insert(found.end(), reply->datafiles.begin(), reply->datafiles.end());
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
    if (!all_here || !all_there) continue;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (size_of((*all_here)[i]) != size_of((*all_there)[i])) {
        SPATE_CO_TRY(std::ignore, co_await look_again(pairs[i]));
      } else if (options_.contents) {
        SPATE_CO_TRY(std::ignore, co_await compare_contents(pairs[i], size_of((*all_here)[i])));
      }
    }
  }
  if (wrong_.size() >= kMostWrong) {
    SPATE_CO_TRY(std::ignore, co_await make_anew());
  }
  auto room = co_await queue_.make_room();
  co_return room;
}

job::Task<bool> CopyCheck::differ(const CopyPair& pair) {
  const std::vector<wire::DatafileRef> one(1, wire::DatafileRef{pair.handle, {pair.slot, pair.here}});
  const auto here = co_await look_at(pair.here, one);
  const auto there = co_await look_at(pair.there, one);
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
  if (counts && here_.present) suspect(finding_of(damage, pair, size_of(here_), size_of(there_)), pair, {});
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
  const auto group = groups_.find(pair.group);
  if (group == groups_.end() || group->second.primary != pair.here) co_return Result<void>();
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

/// What the copies on further targets say about the part in which two copies differ.
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

bool CopyCheck::trusts(TargetId target) const {
  return std::ranges::find(options_.trusted, target) != options_.trusted.end();
}

/// `pair.there` is the copy that the finding names.
void CopyCheck::suspect(wire::Finding finding, CopyPair pair, const std::string& others) {
  queue_.leave_size(finding.handle);
  const bool lost = finding.damage == wire::Damage::kMissingCopy;
  const bool decided = trusts(pair.here) != trusts(pair.there);
  if (!lost && decided && trusts(pair.there)) {
    std::swap(pair.here, pair.there);
    finding.slot.target = pair.there;
    if (finding.damage == wire::Damage::kUnequalCopies) std::swap(finding.recorded, finding.actual);
  }
  if (!options_.repair || (!lost && !decided)) {
    queue_.suspect(std::move(finding), lost || decided ? std::string() : others + kWhichIsRight);
    return;
  }
  const auto same = std::ranges::find_if(wrong_, [&pair](const WrongCopy& known) {
    return known.pair.handle == pair.handle && known.pair.slot == pair.slot && known.pair.there == pair.there;
  });
  const auto group = groups_.find(pair.group);
  const bool from_primary = group != groups_.end() && group->second.primary == pair.here;
  if (same == wrong_.end()) {
    wrong_.push_back({pair, std::move(finding), Outcome::kLeft, {}});
  } else if (from_primary) {
    same->pair = pair;
  }
}

job::Task<Result<void>> CopyCheck::make_anew() {
  std::vector<WrongCopy> wrong = std::move(wrong_);
  wrong_.clear();
  SPATE_CO_TRY(std::ignore, co_await repair_.run(wrong, pass_));
  for (WrongCopy& copy : wrong) queue_.conclude(std::move(copy.finding), copy.outcome, std::move(copy.note));
  co_return Result<void>();
}

}  // namespace spate::fsck
