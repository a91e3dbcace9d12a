// SPDX-License-Identifier: Apache-2.0
// AddressBook: the routes of an endpoint, and the addresses that its provider was given.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_set>

#include "base/bytes.h"
#include "base/result.h"
#include "bmi/ofi/fabric.h"

namespace spate::bmi::ofi {

inline constexpr std::string_view kShmPrefix = "fi_shm://";

/// In libfabric 1.17 two endpoints of one process share one mapping of a peer's memory. It disappears with its owner,
/// and a process that touches it afterwards ends. So a sender holds the lock and checks first. The defect concerns the
/// whole process, so one object serves the whole process.
class ShmNames {
 public:
  static ShmNames& of_this_process() {
    static ShmNames names;
    return names;
  }
  std::mutex mutex;
  std::set<Bytes> names;  // guarded by mutex
};

/// Not thread-safe. Life cycle: open() -> routes -> close(), when the endpoint is closed -> open() again, or destroyed.
class AddressBook {
 public:
  /// `on_this_host`: the addresses are those of the shm provider.
  explicit AddressBook(bool on_this_host) : on_this_host_(on_this_host) {}

  Result<void> open(fid_domain& domain);
  /// Forgets all addresses. Call it when every route is gone.
  void close();
  fid_av& get() const { return *addresses_; }

  /// Returns a route to the endpoint that has the address `name`. Null: no endpoint can be there. `own`: the name of
  /// this endpoint.
  Route* open_route(ByteView name, const Bytes& own, void* owner);
  /// Frees a closed route when nothing of it is in flight.
  void forget_if_unused(Route& route);
  /// Records that a packet was sent to the route's address; the second function says whether one ever was.
  void reached(const Route& route) { reached_.insert(route.fabric_address); }
  bool was_reached(const Route& route) const { return reached_.contains(route.fabric_address); }

 private:
  bool insert_address(Route& route);
  void remove_address(const Route& route);

  const bool on_this_host_;
  Fid<fid_av> addresses_;
  std::list<std::unique_ptr<Route>> routes_;
  std::map<Bytes, std::uint64_t> known_;       // addresses that the provider was given, by name
  std::deque<Bytes> known_order_;              // the oldest first
  std::unordered_set<std::uint64_t> reached_;  // addresses that something has been sent to
};

}  // namespace spate::bmi::ofi
