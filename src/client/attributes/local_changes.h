// SPDX-License-Identifier: Apache-2.0
// LocalChanges: the log of the changes that this client answers itself in directories delegated to it.
// ChangesAfterData: changes that come into the log later.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "model/attributes.h"
#include "model/capability.h"
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
    bool answered = false;         // it was before, and waited for data
  };
  virtual ~LocalChanges() = default;
  /// Not before any time that it has returned.
  virtual WallTime time(WallTime least) = 0;
  /// For a new object. No handle: none is there.
  virtual Handle take_handle() = 0;
  /// False: there is no room, and nothing has changed.
  virtual bool add(Change change) = 0;
  /// Whether the server makes queued removals.
  virtual bool takes_removals() const = 0;
  /// Whether a change of the object with a number above `number` was added.
  virtual bool changed_after(Handle object, std::uint64_t number) const = 0;
  /// For whom the changes are made.
  virtual const Credential& credential() const = 0;
};

/// Files that this client has made and written before the server has made them. Their later changes wait for the data
/// (client/held_changes.h). Thread-safe.
class ChangesAfterData {
 public:
  /// The attributes that the file gets when its data were sent.
  struct Later {
    std::optional<std::uint32_t> mode;
    std::optional<WallTime> atime;
    std::optional<WallTime> mtime;
    WallTime at;
  };
  struct Held {
    Rights rights = Rights::kNone;
    Later later = {};
    bool set = false;  // `later` has something
    bool closed = false;
  };
  virtual ~ChangesAfterData() = default;
  virtual bool has(Handle file) const = 0;
  /// Whether data of any file wait.
  virtual bool any() const = 0;
  /// Nothing: it is no such file.
  virtual std::optional<Held> find(Handle file) const = 0;
  // False: it is no such file, or nothing may wait any more.
  virtual bool set(Handle file, const Later& later) = 0;
  virtual bool close(Handle file) = 0;
  /// The file's data were sent, and what follows them was added to the log.
  virtual void end(Handle file) = 0;
};

}  // namespace spate::client
