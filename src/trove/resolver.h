// SPDX-License-Identifier: Apache-2.0
// Resolver: the commit order of one store, and the decision on each transaction. All keyval modules use it.
#pragma once

#include "trove/conflict_window.h"
#include "trove/read_set.h"
#include "trove/write_set.h"

namespace spate::trove {

/// The position in the commit order at which a live transaction reads. Pinned: the resolver keeps a list of them.
class ReadPoint {
 public:
  ReadPoint() = default;
  ReadPoint(const ReadPoint&) = delete;
  ReadPoint& operator=(const ReadPoint&) = delete;

  /// The transaction sees every commit up to this version, and may see later ones.
  Version version() const { return version_; }

 private:
  friend class Resolver;
  Version version_ = 0;
  ReadPoint* before_ = nullptr;
  ReadPoint* after_ = nullptr;
  bool live_ = false;
};

/// Decides the commits of one store. Not thread-safe.
///
/// Life cycle of a commit: the store asks unchanged() -> tell() -> decide() gives the next version -> applied_now() if
/// the store has it already, failed_now() if the store refused it, or applied_later(), and settle() when a commit with
/// this version or a later one has reached the store. Versions are applied in their order. A transaction that begins
/// between decide() and settle() may or may not see the commit, and conflicts if it read what the commit wrote.
///
/// Life cycle of a read point: begin() -> refresh(), before the first read only -> end(). All points end before the
/// resolver. A point that lives long makes the window forget nothing younger, up to `window_bytes`; beyond that its
/// transaction fails with kConflict.
class Resolver {
 public:
  /// `window_bytes`: limit of the memory for recent commits.
  explicit Resolver(std::size_t window_bytes) : window_(window_bytes) {}
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Makes the point read at the last applied commit.
  void begin(ReadPoint& point);
  /// Moves the point up to the last applied commit. Only before its first read.
  void refresh(ReadPoint& point);
  /// The transaction is over. It may be called twice.
  void end(ReadPoint& point);
  bool anyone_live() const { return oldest_ != nullptr; }
  /// The oldest version that a live transaction reads at, or a new one could.
  Version oldest() const;

  /// False: a commit after the point's version changed something of `reads`, or the resolver no longer remembers. The
  /// transaction then fails with kConflict.
  bool unchanged(const ReadPoint& point, const ReadSet& reads) const;

  void observe_commits(CommitObserver* observer) { observer_ = observer; }
  /// Each store calls it with the writes of a commit that has no conflict, just before it decides the commit.
  void tell(WriteSet& writes) {
    if (observer_ != nullptr) observer_->decided(writes);
  }
  /// Decides a commit without a conflict and returns its version.
  Version decide() { return ++decided_; }
  /// The commit is in the store already. All earlier ones must be.
  void applied_now(Version version, const WriteSet& writes);
  /// The store did not take the commit.
  void failed_now(Version version);
  /// The commit will reach the store later; settle() says when.
  void applied_later(Version version, const WriteSet& writes);
  /// A commit of applied_later() has reached the store or has failed, and so have all before it.
  void settle(Version version);

  Version decided() const { return decided_; }
  /// Whether everything that is decided is also applied.
  bool settled() const { return applied_ == decided_; }

  const ConflictWindow& window() const { return window_; }

 private:
  void record(Version version, const WriteSet& writes);
  void append(ReadPoint& point);
  void unlink(ReadPoint& point);
  void prune();

  ConflictWindow window_;
  Version decided_ = 0;
  Version applied_ = 0;
  ReadPoint* oldest_ = nullptr;  // live points in the order of their versions
  ReadPoint* newest_ = nullptr;
  CommitObserver* observer_ = nullptr;
};

}  // namespace spate::trove
