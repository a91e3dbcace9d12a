// SPDX-License-Identifier: Apache-2.0
// LockDoubts: lock requests of which the client does not know whether the meta server has granted them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "client/session/handover_state.h"
#include "wire/lock_messages.h"

namespace spate::client {

/// The kind and number of an owner of locks within a client.
struct LockHolder {
  LockKind kind = LockKind::kProcess;
  std::uint64_t number = 0;
  friend auto operator<=>(const LockHolder&, const LockHolder&) = default;
};

/// A request is in doubt from the moment when it is sent until its answer comes, or for longer if none comes. In that
/// time its owner may hold what it held before, or what it asked for. After a restart of the meta server the owner may
/// claim only what it holds in both cases, because others may hold the rest. One executor.
class LockDoubts {
 public:
  void begin(std::uint64_t sequence, const wire::LockSpec& lock) { requests_.emplace(sequence, Request{lock}); }
  /// The result of the request is known.
  void end(std::uint64_t sequence) { requests_.erase(sequence); }
  /// The caller no longer waits for the answer. `note`, if not null, records the request; the record is removed when
  /// the doubt ends.
  void leave(std::uint64_t sequence, HandoverState* note);
  /// The server has answered `lock`. Earlier requests of its owner for parts of its range no longer matter.
  void settle(const wire::LockSpec& lock, std::uint64_t sequence);
  /// The server has forgotten all requests. Requests with a waiting caller are sent again.
  void forget();

  bool any(Handle handle, const LockHolder& holder) const;
  /// The locks to set so that the owner, which was told that it holds `ranges`, keeps only what it certainly holds.
  std::vector<wire::LockSpec> weaker(Handle handle, const LockHolder& holder, const LockRanges& ranges) const;

 private:
  struct Request {
    wire::LockSpec lock;
    bool left = false;
    HandoverState* note = nullptr;
    bool is_of(Handle handle, const LockHolder& holder) const {
      return lock.handle == handle && LockHolder{lock.kind, lock.owner} == holder;
    }
  };
  std::map<std::uint64_t, Request> requests_;  // by sequence
};

}  // namespace spate::client
