// SPDX-License-Identifier: Apache-2.0
// Changes that a session has made itself in directories delegated to it, and sends later (docs/wire.md, "Delegated
// directories"). Only with the feature `delegates`.
#pragma once

#include "wire/batch_messages.h"

namespace spate::wire {

/// Most handles in one range.
inline constexpr std::uint32_t kMostReserved = 4096;
/// Most ranges that a session has at a time.
inline constexpr std::size_t kMostRanges = 2;

/// Sets handles aside for objects that the session will make by queued changes. No other object ever gets them. If the
/// session has kMostRanges ranges already, the answer is the later one again. A range ends with the use of its last
/// handle, with the use of a handle of the later range, and with the session's epoch.
struct ReserveHandlesRequest {
  static constexpr Op kOp = Op::kReserveHandles;
  static constexpr std::string_view kName = "reserve handles request";
  Handle directory;         // any one: it names the server
  std::uint32_t count = 0;  // 1..kMostReserved
  template <typename A>
  void fields(A& a) {
    a(directory, count);
  }
};
struct ReserveHandlesReply {
  static constexpr std::string_view kName = "reserve handles reply";
  Handle first;  // the range: count handles from this one on
  std::uint32_t count = 0;
  std::uint64_t next = 0;  // the number of the session's next queued change, as the server knows it; 1 at first
  template <typename A>
  void fields(A& a) {
    a(first, count, next);
  }
};

/// The changes that may be queued: create of a regular file with kOpenExclusive, opened or not; mkdir; symlink;
/// setattr; close; with the feature `removes`, unlink, rmdir, and open for reading by handle.
constexpr bool queueable(Op op) {
  switch (op) {
    case Op::kCreate:
    case Op::kMkdir:
    case Op::kSymlink:
    case Op::kSetattr:
    case Op::kClose:
    case Op::kUnlink:
    case Op::kRmdir:
    case Op::kOpen: return true;
    default: return false;
  }
}

/// One change, made at the session at the time `at`.
struct QueuedChange {
  Op op = Op::kSetattr;
  Bytes body;  // of a request of `op`, which is queueable
  /// File-system time. The server takes no time before the mtime of the directory where the object is made, or before
  /// the ctime of the object that is changed; and none that has not come yet.
  WallTime at;
  /// The handle of the object that is made: of a range of the session, and above all handles that it has used. 0: none
  /// is made.
  Handle handle;
  template <typename A>
  void fields(A& a) {
    a(op, body, at, handle);
  }
};

/// Makes the changes one after another in one transaction: 1 to kMostBatched, with kMostBatchedBytes of bodies at most.
/// The changes of a session have numbers without gaps. The server makes no change twice: those up to the last number
/// that it knows were done before. A change that fails has no effect; its number is used up, and the others are made
/// all the same. kProtocol: a gap in the numbers. Nobody sees a part of the changes. May be sent without a slot.
struct QueuedChangesRequest {
  static constexpr Op kOp = Op::kQueuedChanges;
  static constexpr std::string_view kName = "queued changes request";
  std::uint64_t first = 0;  // number of the first change; 1 is the first of all
  std::vector<QueuedChange> changes;
  template <typename A>
  void fields(A& a) {
    a(first, changes);
  }
};
struct QueuedChangesReply {
  static constexpr std::string_view kName = "queued changes reply";
  /// In the order of the changes. kOk with an empty body: done before, or done now and its answer had no room.
  std::vector<BatchedAnswer> answers;
  template <typename A>
  void fields(A& a) {
    a(answers);
  }
};

}  // namespace spate::wire
