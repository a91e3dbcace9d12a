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
  if (found_ != nullptr && found_address_ == address) return found_;
  const auto found = entries_.find(address);
  if (found == entries_.end()) return nullptr;
  found_address_ = address;
  return found_ = &found->second;
}

}  // namespace spate::bmi
