// SPDX-License-Identifier: Apache-2.0
// Resolver: the commit order of one store and the verdict on each transaction. Shared by all keyval modules.
#pragma once

#include "trove/conflict_window.h"
#include "trove/read_set.h"
#include "trove/write_set.h"

namespace spate::trove {

/// Where in the commit order a live transaction reads. Pinned: the resolver keeps a list of them.
class ReadPoint {
 public:
  ReadPoint() = default;
  ReadPoint(const ReadPoint&) = delete;
  ReadPoint& operator=(const ReadPoint&) = delete;

  /// What the transaction reads contains every commit up to here (and may contain later ones).
  Version version() const { return version_; }

 private:
  friend class Resolver;
  Version version_ = 0;
  ReadPoint* before_ = nullptr;
  ReadPoint* after_ = nullptr;
  bool live_ = false;
};

/// A commit is decided first (it gets the next version), and applied to the store at once or later, always in the order
/// of versions. A transaction that begins between the two reads without it, or perhaps with it, and conflicts if it
/// read what the commit wrote. Used by one thread.
class Resolver {
 public:
  /// `window_bytes`: how much the memory of recent commits may take.
  explicit Resolver(std::size_t window_bytes) : window_(window_bytes) {}
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// The point reads at the last applied commit.
  void begin(ReadPoint& point);
  /// Moves the point up to the last applied commit. Only before its first read.
  void refresh(ReadPoint& point);
  /// The transaction is over. Legal twice.
  void end(ReadPoint& point);
  bool anyone_live() const { return oldest_ != nullptr; }
  /// The oldest version that a live transaction reads at, or a new one could.
  Version oldest() const;

  /// False: a commit after the point's version changed something of `reads`, or that can no longer be told: kConflict.
  bool unchanged(const ReadPoint& point, const ReadSet& reads) const;

  /// The version of a commit that has been found good.
  Version decide() { return ++decided_; }
  /// The commit is in the store already. All earlier ones must be.
  void applied_now(Version version, const WriteSet& writes);
  /// The store did not take the commit.
  void failed_now(Version version);
  /// The commit will reach the store later; settle() says when.
  void applied_later(Version version, const WriteSet& writes);
  /// A commit of applied_later() has reached the store or has failed, and so have all before it.
  void settle(Version version);

  Version applied() const { return applied_; }
  Version decided() const { return decided_; }
  /// Nothing is decided that is not applied.
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
};

}  // namespace spate::trove
