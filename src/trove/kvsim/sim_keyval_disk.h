// SPDX-License-Identifier: Apache-2.0
// SimKeyvalDisk: the device under a simulated keyval store. It survives the process that uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "base/random.h"
#include "trove/key_order.h"
#include "trove/write_set.h"

namespace spate::trove {

/// Planned faults. They take effect at once and may be changed at any time.
struct SimKeyvalFaults {
  bool full = false;                         // commits fail with kNoSpace
  bool short_of_space = false;               // the store reports it; nothing fails
  bool hangs = false;                        // commits and syncs do not end
  std::uint32_t read_error_per_mille = 0;    // reads: kIoError
  std::uint32_t commit_error_per_mille = 0;  // commits: kIoError, and every later one until the store is opened again
  std::uint32_t sync_error_per_mille = 0;    // syncs: the same
};

/// Not thread-safe. Outlives the stores that are opened on it, one at a time. Each store begins a log of its own. A
/// sync makes that log durable, but not the logs before it.
class SimKeyvalDisk {
 public:
  SimKeyvalDisk() = default;
  SimKeyvalDisk(const SimKeyvalDisk&) = delete;
  SimKeyvalDisk& operator=(const SimKeyvalDisk&) = delete;

  /// The machine crashes and loses unsynced data, except for a prefix of each log that `random` chooses. The store on
  /// it must have been killed or destroyed.
  void crash_machine(Random& random);

  SimKeyvalFaults faults;

  // For the store.
  void attach();
  void detach();
  /// Everything on the disk, synced or not.
  Batch contents() const;
  void append(Batch batch);
  /// How many commits have been appended since the disk was new.
  std::uint64_t position() const { return position_; }
  /// Commits of the current log up to `position` survive a crash from now on.
  void sync_to(std::uint64_t position);
  /// The commits of all earlier logs survive a crash from now on.
  void sync_recovered();

 private:
  using Contents = std::map<Bytes, Bytes, KeyLess>;
  struct Commit {
    Batch batch;
    std::uint64_t log = 0;
    bool synced = false;
  };
  static void lay_over(Contents& contents, const Batch& batch);
  void sync_log(std::uint64_t first, std::uint64_t last, std::uint64_t position);
  void settle_synced();

  Contents synced_;
  std::deque<Commit> commits_;  // after those in synced_; the first one is not synced
  std::uint64_t log_ = 0;       // the current one
  std::uint64_t position_ = 0;
  bool attached_ = false;
};

}  // namespace spate::trove
