// SPDX-License-Identifier: Apache-2.0
// Attribute leases: look-ups whose answers a client may cache, and the objects that a change has touched (docs/wire.md,
// "Attribute leases").
#pragma once

#include "wire/meta_messages.h"

namespace spate::wire {

/// One name that a walk has passed: what it leads to, or that nothing is there.
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
  std::optional<ObjectReply> object;  // nothing: there is no such name, and the last step says where
  std::vector<LeaseStep> steps;       // in the order of the walk
  /// The session has leases on the object and on every directory of `steps`, for lease_ms from when it asked.
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
  std::uint64_t cookie = 0;       // as in ReaddirRequest
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
  /// The session has leases on the directory and on what its entries lead to, for lease_ms from when it asked, but for
  /// the entries at these places, the lowest first: of those nothing may be kept.
  bool granted = false;
  std::vector<std::uint32_t> refused;
  std::uint64_t table = 0;  // as in LookupLeaseReply
  std::uint32_t lease_ms = 0;
  template <typename A>
  void fields(A& a) {
    a(page, targets, granted, refused, table, lease_ms);
  }
};

/// A name that was added, removed or given to something else.
struct TouchedName {
  Handle directory;
  std::string name;
  template <typename A>
  void fields(A& a) {
    a(directory, name);
  }
};
/// What a change has touched. It precedes the reply to each change on a connection with the feature `leases`.
struct Touched {
  static constexpr std::string_view kName = "touched";
  bool known = false;           // false: the change may have touched anything
  std::vector<Handle> objects;  // whose attributes have changed; directories of `names` among them
  std::vector<TouchedName> names;
  template <typename A>
  void fields(A& a) {
    a(known, objects, names);
  }
};

/// An object that a change has touched, as it is after the change.
struct GrantedObject {
  enum GrantFlags : std::uint8_t {
    kSearchable = 1,  // a directory in which the session may look names up
    kNeverUsed = 2,   // a directory in which there has never been a name
  };
  ObjectReply object;
  std::uint8_t flags = 0;
  template <typename A>
  void fields(A& a) {
    a(object, flags);
  }
};
/// What the session that made a change may cache of the objects it has touched. It follows Touched on a connection with
/// the feature `grants`.
struct Granted {
  static constexpr std::string_view kName = "granted";
  /// The session has leases on `objects`, and on `names` with their directories, for lease_ms from when it asked.
  bool granted = false;
  std::uint64_t table = 0;  // as in LookupLeaseReply
  std::uint32_t lease_ms = 0;
  std::uint64_t order = 0;  // orders the changes of one table: a later one has a higher number
  std::vector<GrantedObject> objects;
  std::vector<LeaseStep> names;
  template <typename A>
  void fields(A& a) {
    a(granted, table, lease_ms, order, objects, names);
  }
};

}  // namespace spate::wire
