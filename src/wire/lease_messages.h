// SPDX-License-Identifier: Apache-2.0
// Attribute leases: look-ups whose answers a client may cache, and the objects that a change has touched (docs/wire.md,
// "Attribute leases").
#pragma once

#include "wire/meta_messages.h"

namespace spate::wire {

/// One name that a walk has passed: the object that it leads to, or none.
struct LeaseStep {
  Handle directory;
  std::string name;
  Handle object;  // 0: there is no such name
  FileType type = FileType::kRegular;
  template <typename A>
  void fields(A& a) {
    a(directory, name, object, type);
  }
};

/// As lookup, for a client that caches the answer until the server recalls it.
struct LookupLeaseRequest {
  static constexpr Op kOp = Op::kLookupLease;
  static constexpr std::string_view kName = "lookup lease request";
  NamePath where;
  template <typename A>
  void fields(A& a) {
    a(where);
  }
};
struct LookupLeaseReply {
  static constexpr std::string_view kName = "lookup lease reply";
  std::optional<ObjectReply> object;  // nothing: there is no such name, and the last step shows where
  std::vector<LeaseStep> steps;       // in the order of the walk
  /// The session has leases on the object and on every directory of `steps`, for lease_ms from the time of its request.
  bool granted = false;
  std::uint64_t table = 0;  // the number of the lock table: a change of it ends all leases
  std::uint32_t lease_ms = 0;
  template <typename A>
  void fields(A& a) {
    a(object, steps, granted, table, lease_ms);
  }
};

/// As readdir with attributes, for a client that caches the answer until the server recalls it.
struct ListLeaseRequest {
  static constexpr Op kOp = Op::kListLease;
  static constexpr std::string_view kName = "list lease request";
  Handle handle;
  std::uint64_t cookie = 0;       // see ReaddirRequest
  std::uint32_t max_entries = 0;  // 0: as many as fit the reply room
  template <typename A>
  void fields(A& a) {
    a(handle, cookie, max_entries);
  }
};
struct ListLeaseReply {
  static constexpr std::string_view kName = "list lease reply";
  ReaddirReply page;  // with the layout of every regular file; only names if the caller may not look them up
  std::vector<std::string> targets;  // of the symbolic links among the entries, in their order
  /// The session has leases on the directory and on the objects of its entries, for lease_ms from the time of its
  /// request. The entries with these indices, ascending, are exceptions: the client may not cache them.
  bool granted = false;
  std::vector<std::uint32_t> refused;
  std::uint64_t table = 0;  // see LookupLeaseReply
  std::uint32_t lease_ms = 0;
  template <typename A>
  void fields(A& a) {
    a(page, targets, granted, refused, table, lease_ms);
  }
};

/// A name that was added, removed or given to another object.
struct TouchedName {
  Handle directory;
  std::string name;
  template <typename A>
  void fields(A& a) {
    a(directory, name);
  }
};
/// The objects and names that a change has touched. It precedes the reply to each change on a connection with the
/// feature `leases`.
struct Touched {
  static constexpr std::string_view kName = "touched";
  bool known = false;           // false: the change may have touched anything
  std::vector<Handle> objects;  // objects whose attributes have changed, among them the directories of `names`
  std::vector<TouchedName> names;
  template <typename A>
  void fields(A& a) {
    a(known, objects, names);
  }
};

/// An object that a change has touched, in its new state.
struct GrantedObject {
  enum GrantFlags : std::uint8_t {
    kSearchable = 1,  // a directory in which the session may look up names
    kNeverUsed = 2,   // a directory that has never had a name
    // A new directory, of a session with the feature `delegates`: until the lease is recalled, the session answers
    // changes in it itself, and queues them (queue_messages.h).
    kDelegated = 4,
  };
  ObjectReply object;
  std::uint8_t flags = 0;
  template <typename A>
  void fields(A& a) {
    a(object, flags);
  }
};
/// The touched objects that the session which made the change may cache. It follows Touched on a connection with the
/// feature `grants`.
struct Granted {
  static constexpr std::string_view kName = "granted";
  /// The session has leases on `objects`, and on `names` with their directories, for lease_ms from the time of its
  /// request.
  bool granted = false;
  std::uint64_t table = 0;  // see LookupLeaseReply
  std::uint32_t lease_ms = 0;
  std::uint64_t order = 0;  // orders the changes of one table: later ones have higher numbers
  std::vector<GrantedObject> objects;
  std::vector<LeaseStep> names;
  template <typename A>
  void fields(A& a) {
    a(granted, table, lease_ms, order, objects, names);
  }
};

}  // namespace spate::wire
