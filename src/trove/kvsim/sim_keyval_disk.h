// SPDX-License-Identifier: Apache-2.0
// SimKeyvalDisk: the device under a simulated keyval store. It survives the process that uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "base/random.h"
#include "trove/batch.h"
#include "trove/key_order.h"

namespace spate::trove {

/// Faults on order, effective at once; may be changed at any time.
struct SimKeyvalFaults {
  bool full = false;                         // commits fail with kNoSpace
  std::uint32_t read_error_per_mille = 0;    // reads: kIoError
  std::uint32_t commit_error_per_mille = 0;  // commits: kIoError, and every later one until the store is opened again
  std::uint32_t sync_error_per_mille = 0;    // syncs: the same
};

/// One thread. Lives longer than the stores on it; one store at a time.
class SimKeyvalDisk {
 public:
  SimKeyvalDisk() = default;
  SimKeyvalDisk(const SimKeyvalDisk&) = delete;
  SimKeyvalDisk& operator=(const SimKeyvalDisk&) = delete;

  /// The machine goes down, and what was not synced with it, except for a beginning of it that `random` draws. The
  /// store on it must have been killed or destroyed.
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
  /// Commits up to `position` survive a crash from now on.
  void sync_to(std::uint64_t position);

 private:
  using Contents = std::map<Bytes, Bytes, KeyLess>;
  static void lay_over(Contents& contents, const Batch& batch);

  Contents synced_;
  std::deque<Batch> unsynced_;
  std::uint64_t position_ = 0;
  bool attached_ = false;
};

}  // namespace spate::trove
