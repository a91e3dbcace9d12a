// SPDX-License-Identifier: Apache-2.0
// LeaseTable: which sessions have leases on which objects (docs/consistency.md, "Attribute leases").
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/ids.h"

namespace spate::meta {

/// The holder of a lease: an epoch of a session, and the incarnation of the connection for which the lease was given.
/// The incarnation distinguishes a change that was sent before a reconnection from one that its client still waits for.
struct LeaseHolder {
  ClientId client;
  std::uint32_t epoch = 0;
  std::uint64_t incarnation = 0;
  friend bool operator==(const LeaseHolder&, const LeaseHolder&) = default;
};

/// Limits of memory. A lease takes about 200 bytes.
struct LeaseLimits {
  std::size_t leases = std::size_t{1} << 18U;
  std::size_t of_session = std::size_t{1} << 16U;
};

/// A lease covers one object: its attributes, and for a directory also its entries. The table is pure data in memory:
/// it reads no clock and sends no messages. Not thread-safe.
///
/// A reader gets no lease on data that it read before a change was committed. A reader takes a stamp before it reads
/// (begin_read). A writer calls begin_change before it asks for the holders, and end_change after the commit.
class LeaseTable {
 public:
  using Stamp = std::uint64_t;
  explicit LeaseTable(LeaseLimits limits = {}) : limits_(limits) {}

  Stamp begin_read() {
    ++readers_;
    return clock_;
  }
  void end_read();
  /// Grants leases on all of the objects, or on none. False if one of them is being changed, was changed after the
  /// stamp, is being recalled from this session, or does not fit. In the last case take_surplus() may yield something.
  bool grant(const std::vector<Handle>& objects, const LeaseHolder& holder, Stamp stamp);
  bool grant(Handle object, const LeaseHolder& holder, Stamp stamp);

  /// Grants a lease to the session that has just changed the object, between the commit and end_change(). False if
  /// another session changes it as well or has done so meanwhile (the table does not know which commit was the last),
  /// if it is being recalled from this session, if a later connection of the session has a lease already, or if it does
  /// not fit.
  bool grant_changed(Handle object, const LeaseHolder& holder);
  /// The next number for such a grant.
  std::uint64_t next_order() { return ++order_; }

  void begin_change(Handle object);
  void end_change(Handle object);

  struct Lease {
    LeaseHolder holder;
    bool recalled = false;
    bool gathers = false;               // the session may gather writes of the file, and must give the lease back
    Handle delegated;                   // see set_delegated(); 0: not
    std::uint64_t recall_event = 0;     // the event that recalled it
    MonoTime until;                     // of a recalled lease: when it ends without an acknowledgment
    std::list<Handle>::iterator place;  // its position in its session's order
  };
  /// The leases on an object, by client; null when there are none. Valid until the next call that is not const.
  std::map<ClientId, Lease>* of(Handle object);
  void drop(Handle object, ClientId client);
  void drop_object(Handle object);
  /// Ends all of the client's leases of epochs below this one.
  void drop_session(ClientId client, std::uint64_t below_epoch);
  /// The client is silent: ends its leases, except on files whose writes it may have gathered and on what is delegated
  /// to it.
  void drop_silent(ClientId client);
  /// Whether the client, if it has a lease on the file, may gather writes under it.
  void set_gathers(Handle file, ClientId client, bool gathers);
  /// The client has a lease on the object, and queues changes of it (docs/consistency.md, "Delegated directories") as
  /// long as it has the lease on `directory`: the object itself, a directory that was delegated, or the one in which
  /// the object was made.
  void set_delegated(Handle object, ClientId client, Handle directory);
  /// The client whose queue may have changes of the object; none: there is no such client.
  std::optional<ClientId> delegate_of(Handle object) const;
  /// Whether a delegation of the object has ended after the stamp. True as well if the table does not know.
  bool undelegated_since(Handle object, Stamp stamp) const;
  /// Grows with each end of a delegation.
  Stamp ends() const { return ends_; }
  /// How many leases are delegated.
  std::size_t delegated() const { return delegated_; }
  /// Before it is full: a session that queues changes should get a lease on each object that it makes.
  void make_room(ClientId client);
  /// The oldest leases of a full session. The caller recalls them, to make room for others.
  std::vector<std::pair<Handle, ClientId>> take_surplus() { return std::exchange(surplus_, {}); }

  std::size_t size() const { return leases_; }
  std::size_t of_session(ClientId client) const;

 private:
  void note_end(Handle object);
  bool grantable(Handle object, const LeaseHolder& holder, Stamp stamp) const;
  void put(Handle object, const LeaseHolder& holder);
  bool has_room(ClientId client, std::size_t more);
  void note_surplus(ClientId client, std::size_t most);

  const LeaseLimits limits_;
  std::unordered_map<Handle, std::map<ClientId, Lease>> objects_;
  std::unordered_map<ClientId, std::list<Handle>> sessions_;  // oldest first
  std::size_t leases_ = 0;
  struct Changing {
    unsigned changes = 0;
    bool shared = false;  // the object was being changed by several operations at once
  };
  std::unordered_map<Handle, Changing> changing_;
  // Times of changes that were committed while somebody reads. Cleared when nobody reads.
  std::unordered_map<Handle, Stamp> changed_;
  std::uint64_t order_ = 0;
  Stamp clock_ = 0;
  Stamp known_since_ = 0;  // changes before this are no longer known
  std::size_t readers_ = 0;
  std::size_t delegated_ = 0;
  Stamp ends_ = 0;
  std::unordered_map<Handle, Stamp> ended_;  // the latest ends of delegations
  Stamp ended_since_ = 0;                    // ends up to this one are no longer known
  std::vector<std::pair<Handle, ClientId>> surplus_;
};

}  // namespace spate::meta
