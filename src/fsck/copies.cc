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

const std::string kWhichIsRight =
    "reads return the copy of the group's primary, and Spate cannot say whether that is the right one: see "
    "docs/fsck.md, \"By hand\"";

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
  co_return Result<void>();
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

/// A missing datafile counts as one of 0 bytes.
job::Task<Result<CopyCheck::Sizes>> CopyCheck::sizes_on(TargetId target, std::vector<wire::DatafileRef> datafiles) {
  Sizes sizes;
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
    for (const wire::DatafilePresence& datafile : reply->datafiles)
      sizes.push_back(datafile.present ? datafile.size : 0);
  }
  co_return sizes;
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
    const auto sizes_here = co_await sizes_on(target, datafiles);
    const auto sizes_there = co_await sizes_on(there, datafiles);
    if (!sizes_here || !sizes_there) continue;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if ((*sizes_here)[i] != (*sizes_there)[i]) {
        SPATE_CO_TRY(std::ignore, co_await look_again(pairs[i]));
      } else if (options_.contents) {
        SPATE_CO_TRY(std::ignore, co_await compare_contents(pairs[i], (*sizes_here)[i]));
      }
    }
  }
  auto room = co_await queue_.make_room();
  co_return room;
}

job::Task<bool> CopyCheck::differ(const CopyPair& pair) {
  const std::vector<wire::DatafileRef> one(1, wire::DatafileRef{pair.handle, {pair.slot, pair.here}});
  const auto here = co_await sizes_on(pair.here, one);
  const auto there = co_await sizes_on(pair.there, one);
  if (!here || !there) co_return false;
  size_here_ = here->front();
  size_there_ = there->front();
  co_return size_here_ != size_there_;
}

job::Task<Result<void>> CopyCheck::look_again(CopyPair pair) {
  for (int look = 0; look < kLooks; ++look) {
    if (look > 0) std::ignore = co_await servers_.executor().sleep(kLookPause, {});
    const bool unequal = co_await differ(pair);
    if (!unequal) co_return Result<void>();
  }
  SPATE_CO_TRY(const bool counts, co_await is_pair(pair));
  if (counts) suspect(wire::Damage::kUnequalCopies, pair, size_here_, size_there_);
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
  if (counts) suspect(wire::Damage::kUnequalContents, pair, (*part)->offset, (*part)->size);
  co_return Result<void>();
}

void CopyCheck::suspect(wire::Damage damage, const CopyPair& pair, std::uint64_t recorded, std::uint64_t actual) {
  wire::Finding finding;
  finding.damage = damage;
  finding.handle = pair.handle;
  finding.slot = {pair.slot, pair.there};
  finding.recorded = recorded;
  finding.actual = actual;
  queue_.suspect(std::move(finding), kWhichIsRight);
}

}  // namespace spate::fsck
