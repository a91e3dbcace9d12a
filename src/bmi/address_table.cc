// SPDX-License-Identifier: Apache-2.0
#include "bmi/address_table.h"

#include <utility>

namespace spate::bmi {

AddressEntry& AddressTable::add(Address address, std::vector<Route> routes, ContextId context) {
  return entries_.insert_or_assign(address, AddressEntry{std::move(routes), 0, context}).first->second;
}

Address AddressTable::find_list(const std::string& list) const {
  const auto found = by_list_.find(list);
  return found == by_list_.end() ? Address() : found->second;
}

AddressEntry* AddressTable::find(Address address) {
  const auto found = entries_.find(address);
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace spate::bmi
