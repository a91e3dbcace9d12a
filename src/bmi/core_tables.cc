// SPDX-License-Identifier: Apache-2.0
#include "bmi/core_tables.h"

#include <mutex>
#include <utility>

namespace spate::bmi {

std::vector<Route> CoreTables::routes_of(Address address) {
  const std::lock_guard lock(mutex);
  const AddressEntry* entry = addresses.find(Network::unbound(address));
  return entry == nullptr ? std::vector<Route>() : entry->routes;
}

std::optional<Route> CoreTables::current_route(Address peer) {
  const std::lock_guard lock(mutex);
  const AddressEntry* entry = addresses.find(Network::unbound(peer));
  return entry == nullptr ? std::nullopt : std::optional(entry->routes[entry->current]);
}

std::vector<QueuedMessage> CoreTables::take_messages_of(Address address) {
  std::vector<QueuedMessage> taken;
  const AddressEntry* entry = addresses.find(address);
  Context* context = entry == nullptr ? nullptr : contexts.find(entry->context);
  if (context == nullptr) return taken;
  std::erase_if(context->messages(), [&](QueuedMessage& queued) {
    if (queued.message.peer != address) return false;
    taken.push_back(std::move(queued));
    return true;
  });
  context->count();
  return taken;
}

}  // namespace spate::bmi
