// SPDX-License-Identifier: Apache-2.0
// Locks: flock, record locks, and the right to append (docs/wire.md, "Locks"; docs/consistency.md, "Locks").
#pragma once

#include "model/lock_ranges.h"
#include "wire/session_messages.h"

namespace spate::wire {

/// A lock that is requested, held or found.
struct LockSpec {
  Handle handle;
  LockKind kind = LockKind::kProcess;
  std::uint64_t owner = 0;  // the client's number for the process or open file; of kAppend: 0
  std::uint32_t pid = 0;    // for F_GETLK
  LockMode mode = LockMode::kNone;
  std::uint64_t first = 0;  // bytes, both inclusive
  std::uint64_t last = LockRange::kToEnd;
  template <typename A>
  void fields(A& a) {
    a(handle, kind, owner, pid, mode, first, last);
  }
};

/// Sets the mode of a range; kNone releases it. The server keeps locks in memory, so the request carries a sequence of
/// its own and no RequestId.
struct LockRequest {
  static constexpr Op kOp = Op::kLock;
  static constexpr std::string_view kName = "lock request";
  LockSpec lock;
  bool wait = false;           // false: kTryAgain if another owner has it
  std::uint64_t sequence = 0;  // > 0, never used twice in a session; a resend repeats it
  std::uint64_t oldest = 0;    // the client will send no more requests with lower sequences
  std::uint64_t table = 0;     // of the last reply; 0: this session has not had a reply yet
  template <typename A>
  void fields(A& a) {
    a(lock, wait, sequence, oldest, table);
  }
};
struct LockReply {
  static constexpr std::string_view kName = "lock reply";
  bool queued = false;  // it waits: session_events will report the outcome
  /// If it differs from the last one, the server has forgotten all locks, and the client reclaims its own.
  std::uint64_t table = 0;
  template <typename A>
  void fields(A& a) {
    a(queued, table);
  }
};

/// Asks for the lock that conflicts with this one.
struct LockTestRequest {
  static constexpr Op kOp = Op::kLockTest;
  static constexpr std::string_view kName = "lock test request";
  LockSpec lock;
  template <typename A>
  void fields(A& a) {
    a(lock);
  }
};
struct LockTestReply {
  static constexpr std::string_view kName = "lock test reply";
  std::optional<LockSpec> conflict;
  ClientId client;  // its holder
  template <typename A>
  void fields(A& a) {
    a(conflict, client);
  }
};

/// Ends a wait without a lock.
struct LockCancelRequest {
  static constexpr Op kOp = Op::kLockCancel;
  static constexpr std::string_view kName = "lock cancel request";
  std::uint64_t sequence = 0;  // of the lock request
  template <typename A>
  void fields(A& a) {
    a(sequence);
  }
};
struct LockCancelReply {
  static constexpr std::string_view kName = "lock cancel reply";
  bool ended = false;  // false: it had ended before; session_events has reported that, or will
  std::uint64_t table = 0;
  template <typename A>
  void fields(A& a) {
    a(ended, table);
  }
};

/// After a restart of the server, the client reports the locks that it holds.
struct LockReclaimRequest {
  static constexpr Op kOp = Op::kLockReclaim;
  static constexpr std::string_view kName = "lock reclaim request";
  std::vector<LockSpec> locks;
  bool last = true;  // false: more requests follow
  template <typename A>
  void fields(A& a) {
    a(locks, last);
  }
};
struct LockReclaimReply {
  static constexpr std::string_view kName = "lock reclaim reply";
  std::uint64_t table = 0;
  std::vector<std::uint32_t> lost;  // indices of the locks in the request that other owners have now
  template <typename A>
  void fields(A& a) {
    a(table, lost);
  }
};

}  // namespace spate::wire
