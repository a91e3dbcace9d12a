// SPDX-License-Identifier: Apache-2.0
// LocalTarget: the parts of one target that the pool and uring modules share: folder, open datafiles, threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/workers.h"
#include "trove/execute.h"
#include "trove/folder_store.h"

namespace spate::trove {

struct LocalTargetOptions {
  /// Datafiles kept open; 0 = a quarter of RLIMIT_NOFILE, at least 64, at most 4096.
  std::size_t max_open_datafiles = 0;
  /// Threads for what may block.
  unsigned threads = 4;
};

/// One target's folder, open datafiles and threads. The pool and uring modules share it. There is one for each target
/// in a process.
///
/// Life cycle: open() -> shared by the Bytestreams of all executors -> destroyed with its last owner. No operation may
/// be in flight then, which each Bytestreams sees to. The destructor waits for the threads, and then writes the change
/// counters back. A counter that cannot be written back stays in the change records, which the next open() applies.
///
/// Thread-safe.
class LocalTarget {
 public:
  /// Opens a formatted folder and applies the change records that a killed process left. Errors: those of open_target,
  /// and of reading a datafile that was being changed. After a kill it opens each datafile that was being changed,
  /// which may take a while.
  static Result<std::shared_ptr<LocalTarget>> open(const std::string& path, const TargetIdentity& expected,
                                                   const LocalTargetOptions& options = {});
  LocalTarget(const LocalTarget&) = delete;
  LocalTarget& operator=(const LocalTarget&) = delete;

  FolderStore& store() { return *store_; }
  LocalAbilities& abilities() { return abilities_; }
  Workers& workers() { return *workers_; }
  const TargetFolder& folder() const { return folder_; }
  /// The folder is on a file system that is memory (tmpfs): no call ever waits for a device.
  bool in_memory() const { return in_memory_; }
  const DirectAbility& direct() const { return direct_; }
  /// Bytestreams::try_device_memory().
  Result<void> try_device_memory(MutableByteView memory) const;
  /// The free space is what writes may still use (model/reserved_space.h).
  Result<SpaceInfo> space() const;

 private:
  explicit LocalTarget(TargetFolder folder) : folder_(std::move(folder)) {}

  TargetFolder folder_;
  bool in_memory_ = false;
  DirectAbility direct_;
  LocalAbilities abilities_;
  // Members are destroyed in reverse order: the threads have ended when the store writes back, and the records still
  // exist then.
  std::unique_ptr<ChangeRecords> records_;
  std::unique_ptr<FolderStore> store_;
  std::optional<Workers> workers_;
};

}  // namespace spate::trove
