// SPDX-License-Identifier: Apache-2.0
// LocalChanges: the log of the changes that this client answers itself in directories delegated to it.
#pragma once

#include "base/bytes.h"
#include "base/clock.h"
#include "model/attributes.h"
#include "wire/lease_messages.h"

namespace spate::client {

/// The attribute cache decides what can be answered, and adds the change here before it counts. Called with the cache's
/// lock held: the calls return at once and do not call the cache.
class LocalChanges {
 public:
  struct Change {
    wire::Op op{};
    Handle object;  // that it makes or changes
    bool makes = false;
    Handle directory;  // whose entries change; 0: none do
    WallTime at;
    Bytes body;
    std::uint64_t request_id = 0;  // the program's call (client/session/handover_state.h); 0: unknown
  };
  virtual ~LocalChanges() = default;
  /// Not before any time that it has returned.
  virtual WallTime time(WallTime least) = 0;
  /// For a new object. No handle: none is there.
  virtual Handle take_handle() = 0;
  /// False: there is no room, and nothing has changed.
  virtual bool add(Change change) = 0;
  /// Whether a change of the object with a number above `number` was added.
  virtual bool changed_after(Handle object, std::uint64_t number) const = 0;
  /// For whom the changes are made.
  virtual const Credential& credential() const = 0;
};

}  // namespace spate::client
