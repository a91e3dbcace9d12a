// SPDX-License-Identifier: Apache-2.0
// ConflictWindow: the keys that recent commits have written, and when. Optimistic transactions are checked against it.
// Source: Zhou et al., "FoundationDB: A Distributed Unbundled Transactional Key Value Store", SIGMOD 2021: the
// resolver's lastCommit map. Here it holds a version for each key instead of each range, as no operation erases a
// range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "base/bytes.h"
#include "trove/key_order.h"

namespace spate::trove {

/// Position in the commit order of one store, counted from its opening.
using Version = std::uint64_t;

/// Remembers the commits (start(), latest]. Commits up to start() are forgotten, so a transaction that began before
/// start() always conflicts. Not thread-safe. Memory: about 150 bytes and the key for each remembered write.
class ConflictWindow {
 public:
  /// `max_bytes`: how much it may take; the oldest commits are forgotten first.
  explicit ConflictWindow(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// The commit `version` wrote `key`. Versions never fall from call to call.
  void record(Version version, ByteView key);
  /// The caller knows that nobody will ask about versions up to `version` again.
  void forget_up_to(Version version);

  Version start() const { return start_; }
  /// Whether a commit after `since` wrote the key, or may have. O(log n).
  bool key_changed(ByteView key, Version since) const;
  /// Whether a commit after `since` wrote a key in [begin, end). O(log n + keys remembered in the range).
  bool range_changed(ByteView begin, ByteView end, Version since) const;

  std::size_t bytes() const { return bytes_; }
  std::size_t keys() const { return last_.size(); }

 private:
  using LastWrite = std::map<Bytes, Version, KeyLess>;
  struct Logged {
    Version version;
    LastWrite::iterator entry;
  };
  static constexpr std::size_t kEntryOverhead = 128;

  void drop_oldest();

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  Version start_ = 0;
  LastWrite last_;
  std::deque<Logged> log_;  // in version order; the entry lives as long as its latest version is logged here
};

}  // namespace spate::trove
