// SPDX-License-Identifier: Apache-2.0
// HeldLocks: the locks that the owners of one client hold, as far as the client knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "client/locks/lock_doubts.h"
#include "client/session/handover_state.h"
#include "wire/lock_messages.h"

namespace spate::client {

/// The record of a lock for the next process of this client.
HandoverState::Held handover_record(const wire::LockSpec& lock, std::uint32_t pid);

/// Keeps the ranges that each owner holds of each file, and whether it has lost them. A lost lock stays here until its
/// owner releases it, so that the owner's next request can fail. Sends no messages. One executor.
class HeldLocks {
 public:
  struct Held {
    LockRanges ranges;
    std::uint32_t pid = 0;
    bool lost = false;
  };

  /// The server has given the owner this mode for the range; kNone: the owner holds nothing of it any more. Also
  /// records it in `handover`, if that is not null.
  void set(const wire::LockSpec& lock, HandoverState* handover);
  /// Takes over a lock that an earlier process has recorded.
  void inherit(const HandoverState::Held& piece);

  /// Null: the owner has no locks on the file. Valid until the next change.
  const Held* find(Handle handle, const LockHolder& holder) const;
  /// All locks are lost with the session.
  void lose_all();
  /// The owner's locks on the file are lost. False: it has none.
  bool lose(Handle handle, const LockHolder& holder);

  /// Files with locks, also lost ones.
  std::size_t files() const { return held_.size(); }
  /// Whether a lock on the file was lost and has not been released since. Rights to append do not count.
  bool any_lost(Handle handle) const;
  /// Whether any lock is not lost.
  bool any_valid() const;
  /// Whether any right to append is not lost.
  bool any_append_right() const;
  /// The files with a right to append, also a lost one.
  std::vector<Handle> append_rights() const;
  /// All locks that are not lost.
  std::vector<wire::LockSpec> all_valid() const;
  /// The locks to set so that each owner keeps only what it certainly holds (LockDoubts::weaker).
  std::vector<wire::LockSpec> weaker(const LockDoubts& doubts) const;

 private:
  std::map<Handle, std::map<LockHolder, Held>> held_;
};

}  // namespace spate::client
