// SPDX-License-Identifier: Apache-2.0
// LockTable: who has locked what, who waits for it, and who waits for whom (docs/consistency.md, "Locks").
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

/// Who holds a lock or waits for one. A session's epochs are different owners: the older one's are passed on only after
/// it has been fenced.
struct LockOwner {
  ClientId client;
  std::uint32_t epoch = 0;
  LockKind kind = LockKind::kProcess;
  std::uint64_t token = 0;  // the client's own number for the process or open file
  friend auto operator<=>(const LockOwner&, const LockOwner&) = default;
};

/// Names a wait: a number that the client has chosen.
struct LockWait {
  ClientId client;
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const LockWait&, const LockWait&) = default;
};

struct LockWish {
  Handle handle;
  LockOwner owner;
  LockMode mode = LockMode::kNone;
  LockRange range;
  std::uint32_t pid = 0;  // for F_GETLK
};

enum class LockOutcome : std::uint8_t {
  kGranted,   // done; also every release
  kConflict,  // somebody else has it, and this wish does not wait
  kQueued,    // it waits
  kDeadlock,  // waiting would never end: those who hold it wait for this owner
  kTooMany,   // a limit is reached
};

/// What was found in the way of a wish.
struct LockConflict {
  LockOwner owner;
  std::uint32_t pid = 0;
  HeldLock lock;
};

/// Bounds of memory and of time a step.
struct LockLimits {
  std::size_t pieces_of_session = 65536;
  std::size_t pieces_of_file = 16384;
  std::size_t waits_of_session = 4096;
  std::size_t waits_for_file = 1024;
};

/// The locks of all files, in memory. Record locks (kProcess, kOpenFile), flock and append rights do not know each
/// other. Those who wait are served first come, first served; only who holds a lock already, or does not wait, may pass
/// those who wait, since otherwise it could be made to wait for whoever waits for it. Deadlocks are looked for among
/// owners of the kind kProcess, over all files. No thread, no clock, no I/O.
class LockTable {
 public:
  explicit LockTable(LockLimits limits = {}) : limits_(limits) {}

  /// `wait`: 0 does not wait. The range is valid. A release (kNone) frees whatever the owner has there; it ends no
  /// wait. As on Linux, flock from one mode to another gives up the first when it cannot have the second at once.
  LockOutcome set(const LockWish& wish, std::uint64_t wait);
  /// The owner's locks and waits on this file end.
  void release(Handle handle, const LockOwner& owner);
  /// The wait ends without a lock; false: there is none (any more).
  bool cancel(const LockWait& wait);
  /// Everything of the client's epochs below this one.
  void release_client(ClientId client, std::uint32_t below_epoch);
  /// The first thing in the way of this wish.
  std::optional<LockConflict> test(const LockWish& wish) const;

  /// Waits that have ended since this was called last.
  struct Ended {
    LockWait wait;
    bool granted = true;  // false: a limit was reached
  };
  std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }
  /// Append rights that somebody else waits for, each once until it changes hands.
  struct Recall {
    Handle handle;
    LockOwner owner;
  };
  std::vector<Recall> take_recalls() { return std::exchange(recalls_, {}); }

  bool holds_any(ClientId client) const;
  bool waits_any(ClientId client) const;
  std::size_t pieces() const { return pieces_; }
  std::size_t waits() const { return waits_.size(); }

 private:
  enum class Space : std::uint8_t { kRecords, kFlocks, kAppends };
  struct Place {
    Handle handle;
    Space space = Space::kRecords;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Waiting {
    LockWait wait;
    LockWish wish;
  };
  struct File {
    std::map<LockOwner, LockRanges> held;
    std::list<Waiting> queue;  // in the order of their coming
    std::size_t pieces = 0;
    bool empty() const { return held.empty() && queue.empty(); }
  };
  struct Owner {
    std::set<Place> held;
    std::set<std::uint64_t> waits;
    std::uint32_t pid = 0;
  };
  struct Session {
    std::size_t pieces = 0;
    std::size_t waits = 0;
  };
  static Place place_of(Handle handle, LockKind kind);

  bool grantable(const File& file, const LockWish& wish) const;
  bool has_turn(const File& file, const Waiting& waiting) const;
  bool fits(const File& file, const LockWish& wish) const;
  bool would_deadlock(const LockWish& wish) const;
  void add_holders(const LockWish& wish, std::vector<LockOwner>& out) const;
  void apply(const LockWish& wish);
  LockOutcome enqueue(const LockWish& wish, std::uint64_t number);
  std::list<Waiting>::iterator dequeue(File& file, std::list<Waiting>::iterator waiting);
  void serve();
  void serve_once(File& file);
  void recall(const Place& place, const File& file);
  void forget_if_idle(const LockOwner& owner);

  const LockLimits limits_;
  std::map<Place, File> files_;
  std::map<LockOwner, Owner> owners_;
  std::map<ClientId, Session> sessions_;
  std::map<LockWait, Place> waits_;
  std::set<Place> to_serve_;
  std::set<std::pair<Place, LockOwner>> recalled_;
  std::vector<Ended> ended_;
  std::vector<Recall> recalls_;
  std::size_t pieces_ = 0;
};

}  // namespace spate::meta
