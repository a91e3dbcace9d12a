// SPDX-License-Identifier: Apache-2.0
// HeldChanges: changes of new files that wait until the files' data are sent.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "client/attributes/local_changes.h"
#include "client/session/gather_memory.h"

namespace spate::client {

/// The changes of a file are in the piece that has the file's data, so a next process has both. Thread-safe, and never
/// waits for the executor.
class HeldChanges final : public ChangesAfterData {
 public:
  /// From now on the changes of the file wait for what `piece` holds. `piece` outlives end().
  void begin(Handle file, GatherMemory::Piece& piece);
  /// Nothing more may wait.
  void refuse();

  // ChangesAfterData.
  bool has(Handle file) const override;
  std::optional<Held> find(Handle file) const override;
  bool set(Handle file, const Later& later) override;
  bool close(Handle file) override;
  void end(Handle file) override;

  bool any() const { return files() > 0; }
  std::uint64_t files() const { return files_.load(std::memory_order_acquire); }
  /// How many changes have ever waited.
  std::uint64_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  GatherMemory::Later* later_of(Handle file);

  mutable std::mutex mutex_;  // guards the pieces' `later`, too
  bool refuses_ = false;
  std::unordered_map<Handle, GatherMemory::Piece*> pieces_;

  std::atomic<std::uint64_t> files_ = 0;  // size of pieces_
  std::atomic<std::uint64_t> held_ = 0;
};

}  // namespace spate::client
