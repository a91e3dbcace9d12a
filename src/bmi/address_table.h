// SPDX-License-Identifier: Apache-2.0
// AddressTable: opaque addresses and the (module, peer) pairs behind each of them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "bmi/module.h"

namespace spate::bmi {

/// One URL of an address.
struct Route {
  Module* module = nullptr;
  PeerId peer;
  bool sends_at_once = false;  // see Abilities
};

/// A peer of the caller's: a server with its URLs in order of preference, or a process that connected (one route).
struct AddressEntry {
  std::vector<Route> routes;
  std::uint32_t current = 0;  // the route in use
  /// Where its unexpected messages go: the listening context of an inbound peer; for a peer that was looked up, the
  /// context that first posted to it.
  ContextId context;
};

/// Not thread-safe: the core's lock guards it.
class AddressTable {
 public:
  /// A number for an address that will be added when its routes are known; never given out again.
  Address reserve() { return Address(++last_); }
  AddressEntry& add(Address address, std::vector<Route> routes, ContextId context);
  /// Remembers `address` as the one for a list of URLs.
  void add_list(std::string list, Address address) { by_list_.emplace(std::move(list), address); }
  /// Zero when the list is unknown.
  Address find_list(const std::string& list) const;
  AddressEntry* find(Address address);
  void remove(Address address) {
    entries_.erase(address);
    found_ = nullptr;
  }

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<Address, AddressEntry> entries_;  // references stay valid while others come and go
  std::unordered_map<std::string, Address> by_list_;
  Address found_address_;          // by find(), last
  AddressEntry* found_ = nullptr;  // its entry
};

}  // namespace spate::bmi
