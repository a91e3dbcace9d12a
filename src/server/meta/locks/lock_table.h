// SPDX-License-Identifier: Apache-2.0
// LockTable: the locks of all files, the waits for them, and the detection of deadlocks (docs/consistency.md, "Locks").
#pragma once

#include <compare>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "model/ids.h"
#include "model/lock_ranges.h"

namespace spate::meta {

/// The owner of a lock or of a wait. The epochs of a session are different owners: the locks of an older epoch pass to
/// others only after it has been fenced.
struct LockOwner {
  ClientId client;
  std::uint32_t epoch = 0;
  LockKind kind = LockKind::kProcess;
  std::uint64_t token = 0;  // the client's own number for the process or open file
  friend auto operator<=>(const LockOwner&, const LockOwner&) = default;
};

/// Identifies a wait by a number that the client has chosen.
struct LockWait {
  ClientId client;
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const LockWait&, const LockWait&) = default;
};

struct LockParams {
  Handle handle;
  LockOwner owner;
  LockMode mode = LockMode::kNone;
  LockRange range;
  std::uint32_t pid = 0;  // for F_GETLK
};

enum class LockOutcome : std::uint8_t {
  kGranted,   // done; also every release
  kConflict,  // another owner holds a conflicting lock, and this request does not wait
  kQueued,    // it waits
  kDeadlock,  // the wait would never end: the holders wait for this owner
  kTooMany,   // a limit is reached
};

/// A lock that conflicts with a request.
struct LockConflict {
  LockOwner owner;
  std::uint32_t pid = 0;
  HeldLock lock;
};

/// Limits of memory, and of the time of one call.
struct LockLimits {
  std::size_t pieces_of_session = 65536;
  std::size_t pieces_of_file = 16384;
  std::size_t waits_of_session = 4096;
  std::size_t waits_for_file = 1024;
};

/// The locks of all files, in memory. Record locks (kProcess, kOpenFile), flock and append rights are independent of
/// each other. Waits are served first come, first served. Only an owner that already holds a lock, or a request that
/// does not wait, may overtake others; otherwise two owners could wait for each other. The table detects deadlocks
/// among owners of the kind kProcess, over all files. No thread, no clock, no I/O.
class LockTable {
 public:
  explicit LockTable(LockLimits limits = {}) : limits_(limits) {}

  /// `wait`: 0 does not wait. The range is valid. A release (kNone) frees everything that the owner holds in the range;
  /// it ends no wait. As on Linux, a flock that changes its mode loses the first mode if it cannot have the second at
  /// once.
  LockOutcome set(const LockParams& params, std::uint64_t wait);
  /// Ends the owner's locks and waits on this file.
  void release(Handle handle, const LockOwner& owner);
  /// Ends the wait without a lock. False: there is no such wait.
  bool cancel(const LockWait& wait);
  /// Ends all locks and waits of the client's epochs below this one.
  void release_client(ClientId client, std::uint32_t below_epoch);
  /// The first lock that conflicts with this request.
  std::optional<LockConflict> test(const LockParams& params) const;

  /// The waits that have ended since the last call.
  struct Ended {
    LockWait wait;
    bool granted = true;  // false: a limit was reached
  };
  std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }
  /// Append rights that another owner waits for. Each is reported once for each holder.
  struct Recall {
    Handle handle;
    LockOwner owner;
  };
  std::vector<Recall> take_recalls() { return std::exchange(recalls_, {}); }

  bool holds_any(ClientId client) const;
  std::size_t pieces() const { return pieces_; }
  std::size_t waits() const { return waits_.size(); }

 private:
  enum class Space : std::uint8_t { kRecords, kFlocks, kAppends };
  struct FileKey {
    Handle handle;
    Space space = Space::kRecords;
    friend auto operator<=>(const FileKey&, const FileKey&) = default;
  };
  struct Waiting {
    LockWait wait;
    LockParams params;
  };
  struct File {
    std::map<LockOwner, LockRanges> held;
    std::list<Waiting> queue;  // in order of arrival
    std::size_t pieces = 0;
    bool empty() const { return held.empty() && queue.empty(); }
  };
  struct Owner {
    std::set<FileKey> held;
    std::set<std::uint64_t> waits;
    std::uint32_t pid = 0;
  };
  struct SessionUsage {
    std::size_t pieces = 0;
    std::size_t waits = 0;
  };
  static FileKey place_of(Handle handle, LockKind kind);

  bool grantable(const File& file, const LockParams& params) const;
  bool has_turn(const File& file, const Waiting& waiting) const;
  bool fits(const File& file, const LockParams& params) const;
  bool would_deadlock(const LockParams& params) const;
  void add_holders(const LockParams& params, std::vector<LockOwner>& out) const;
  void apply(const LockParams& params);
  LockOutcome enqueue(const LockParams& params, std::uint64_t number);
  std::list<Waiting>::iterator dequeue(File& file, std::list<Waiting>::iterator waiting);
  void serve();
  void serve_once(File& file);
  void recall(const FileKey& place, const File& file);
  void forget_if_idle(const LockOwner& owner);

  const LockLimits limits_;
  std::map<FileKey, File> files_;
  std::map<LockOwner, Owner> owners_;
  std::map<ClientId, SessionUsage> sessions_;
  std::map<LockWait, FileKey> waits_;
  std::set<FileKey> to_serve_;
  std::set<std::pair<FileKey, LockOwner>> recalled_;
  std::vector<Ended> ended_;
  std::vector<Recall> recalls_;
  std::size_t pieces_ = 0;
};

}  // namespace spate::meta
