// SPDX-License-Identifier: Apache-2.0
// What tests ask an io server that no user asks.
#pragma once

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
  /// Whether the server takes part in every group that it knows as the group's record says.
  static bool groups_settled(const IoService& service) { return service.parts_->mirrors->settled(); }
};

}  // namespace spate::io
