// SPDX-License-Identifier: Apache-2.0
// CoreTables: the tables that Core and Posts share.
#pragma once

#include <optional>
#include <vector>

#include "base/biased_mutex.h"
#include "bmi/address_table.h"
#include "bmi/context.h"
#include "bmi/op_table.h"

namespace spate::bmi {

/// The tables of the core, and the lock that guards all of them (the contexts' own state, too).
struct CoreTables {
  BiasedMutex mutex;
  AddressTable addresses;
  OpTable ops;
  ContextTable contexts;

  /// The routes to a peer, none if it is not known. Takes the lock.
  std::vector<Route> routes_of(Address peer);
  /// The route that is in use. Takes the lock.
  std::optional<Route> current_route(Address peer);
  /// Takes the peer's unexpected messages out of the queue. Call it with the lock held.
  std::vector<QueuedMessage> take_messages_of(Address address);
};

}  // namespace spate::bmi
