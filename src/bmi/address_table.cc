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

Address AddressTable::claim_released(const std::string& list) {
  auto released = released_.extract(list);
  if (released.empty()) return {};
  claimed_.emplace(released.mapped(), list);
  return released.mapped();
}

void AddressTable::release(Address address) {
  auto claimed = claimed_.extract(address);
  AddressEntry* const entry = find(address);
  if (claimed.empty() || entry == nullptr) return;
  entry->current = 0;
  entry->context = {};
  released_.emplace(std::move(claimed.mapped()), address);
}

AddressEntry* AddressTable::find(Address address) {
  if (found_ != nullptr && found_address_ == address) return found_;
  const auto found = entries_.find(address);
  if (found == entries_.end()) return nullptr;
  found_address_ = address;
  return found_ = &found->second;
}

}  // namespace spate::bmi
