// SPDX-License-Identifier: Apache-2.0
// What tests ask an io server that no user asks.
#pragma once

#include <algorithm>

#include "server/io/io_service.h"
#include "server/io/mirror/mirrors.h"
#include "server/io/parts.h"

namespace spate::io {

/// Reads the state of an IoService. Call it on the service's executor.
struct IoServiceTestAccess {
  /// False: the store is new and does not know the fences yet.
  static bool lets_clients_in(const IoService& service) { return service.parts_->fences_known; }
  /// Whether the removals that a crash of the machine may have undone have been repeated.
  static bool has_redone_removals(const IoService& service) {
    return service.parts_->removals_redone || service.parts_->options.boot == 0;
  }
  /// The groups whose old copies are still to be removed.
  static std::size_t groups_with_old_copies(const IoService& service) {
    const auto& groups = service.parts_->mirrors->groups_;
    return static_cast<std::size_t>(
        std::ranges::count_if(groups, [](const auto& entry) { return entry.second->has_old_copies(); }));
  }
  /// The led groups that lack a copy for which no server has room.
  static std::size_t groups_without_room(const IoService& service) {
    const auto& groups = service.parts_->mirrors->groups_;
    return static_cast<std::size_t>(std::ranges::count_if(
        groups, [](const auto& entry) { return entry.second->term != nullptr && entry.second->term->lacks_room(); }));
  }
  /// Whether each known group is as its record says: this member serves, and leads if it is the primary.
  static bool groups_settled(const IoService& service) {
    return std::ranges::all_of(service.parts_->mirrors->groups_, [](const auto& entry) {
      const MirrorGroup& group = *entry.second;
      const bool leads = !group.is_primary() || (group.term != nullptr && group.term->is_open());
      if (group.is_replaced()) return group.emptied;
      return !group.fresh && group.accepted == group.record.epoch && group.serves() && leads;
    });
  }
};

}  // namespace spate::io
