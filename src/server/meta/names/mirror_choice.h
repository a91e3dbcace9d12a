// SPDX-License-Identifier: Apache-2.0
// Chooses the groups of targets that keep a new file's data, and makes them if they do not exist yet.
#pragma once

#include "server/meta/core/operation.h"

namespace spate::meta {

/// A target's groups lie on at most this many other servers. If a server fails, this many share its work. If two fail,
/// few files lose both copies.
constexpr std::size_t kMostPartners = 12;

/// The targets of a group with `replicas` members (2..kMaxReplicas) whose first one is `first`. They are on different
/// servers, and in different racks or on different hosts if there are enough of them (may_keep_apart()). Different
/// values of `turn` yield the groups of the same target. kNoSpace: there are too few servers.
Result<std::vector<TargetId>> group_members(const ClusterMap& map, TargetId first, std::uint32_t replicas,
                                            std::uint64_t turn);

inline bool names_groups(const Layout& layout) { return is_group(layout.slots.front().targets.front()); }

/// How many copies a new file gets, and how many of them must serve for a change to be answered: 1..replicas.
struct Copies {
  std::uint32_t replicas = 1;
  std::uint32_t min = 1;
};

/// Turns `layout`, whose slots name targets, into that of a file with that many copies: each slot names a group. Slots
/// that name a group already stay. Yields kConflict if a group was missing: the operation runs again when the group
/// exists. kNoSpace, kNotSupported (an older client) with a sentence.
Result<void> mirror(Operation& operation, Layout& layout, Copies copies, std::uint64_t turn);

}  // namespace spate::meta
