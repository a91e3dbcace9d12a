// SPDX-License-Identifier: Apache-2.0
// AddressTable: opaque addresses, and the (module, peer) pairs behind each of them.
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

/// A peer: a server with its URLs in order of preference, or a process that connected (one route).
struct AddressEntry {
  std::vector<Route> routes;
  std::uint32_t current = 0;  // the route in use
  /// The context that gets the peer's unexpected messages. For an inbound peer it is the listening context; for a peer
  /// that was looked up, the context that first posted to it.
  ContextId context;
};

/// The fields of a bound address, from the top: the mark of the connection, the index of the URL, and the number of the
/// peer.
inline constexpr unsigned kUrlBits = 6;
inline constexpr unsigned kPeerNumberBits = 40;  // Network::unbound() keeps these

/// The connection that a bound address names, as Post stores it. 0: any connection.
constexpr std::uint32_t mark_of(Address address) {
  return static_cast<std::uint32_t>(address.value >> (kPeerNumberBits + kUrlBits));
}

/// False: a bound address whose URL is no longer the one in use.
constexpr bool on_current_url(const AddressEntry& entry, Address address) {
  return mark_of(address) == 0 || (address.value >> kPeerNumberBits & ((1U << kUrlBits) - 1)) == entry.current;
}

/// Not thread-safe: the core's lock guards it.
class AddressTable {
 public:
  /// Reserves a number for an address that is added later, when its routes are known. No number is given out twice.
  Address reserve() { return Address(++last_); }
  AddressEntry& add(Address address, std::vector<Route> routes, ContextId context);
  /// Remembers `address` as the one for a list of URLs.
  void add_list(std::string list, Address address) { by_list_.emplace(std::move(list), address); }
  /// Zero if the list is unknown.
  Address find_list(const std::string& list) const;
  /// Remembers that somebody has `address`, of that list of URLs, for himself.
  void claim(std::string list, Address address) { claimed_.emplace(address, std::move(list)); }
  /// Claims an address of the list that was released. Zero if there is none.
  Address claim_released(const std::string& list);
  bool is_claimed(Address address) const { return claimed_.contains(address); }
  /// No effect on an address that nobody has claimed.
  void release(Address address);
  AddressEntry* find(Address address);
  void remove(Address address) {
    entries_.erase(address);
    found_ = nullptr;
  }

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<Address, AddressEntry> entries_;  // references stay valid when others are added or removed
  std::unordered_map<std::string, Address> by_list_;
  std::unordered_map<Address, std::string> claimed_;
  std::unordered_multimap<std::string, Address> released_;
  Address found_address_;          // the address that find() found last
  AddressEntry* found_ = nullptr;  // its entry
};

}  // namespace spate::bmi
