// SPDX-License-Identifier: Apache-2.0
// LocalTarget: all that the pool and uring modules share of one target: folder, open datafiles, threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trove/execute.h"
#include "trove/folder_store.h"
#include "trove/workers.h"

namespace spate::trove {

struct LocalTargetOptions {
  /// Datafiles kept open; 0 = a quarter of RLIMIT_NOFILE, at least 64, at most 4096.
  std::size_t max_open_datafiles = 0;
  /// Threads for what may block.
  unsigned threads = 4;
};

/// One per target and process; thread-safe, so that several executors, each with its own Bytestreams, can share it
/// (hence shared_ptr). The last one to go writes the change counters back.
class LocalTarget {
 public:
  /// Opens a formatted folder and applies what a killed process left (change records). Errors of open_target, or of
  /// reading a datafile that was being changed. May take a while after a kill: one open per changed datafile.
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
  /// Free is what writes may still take: the last `kept_bytes` of a device are for the records of this and other
  /// servers on it, without which nothing could be removed from a full one.
  Result<SpaceInfo> space() const;
  static std::uint64_t kept_bytes(std::uint64_t total_bytes);

 private:
  explicit LocalTarget(TargetFolder folder) : folder_(std::move(folder)) {}

  TargetFolder folder_;
  bool in_memory_ = false;
  DirectAbility direct_;
  LocalAbilities abilities_;
  // Destroyed in reverse: no work is left when the store writes back, and the records are there for it.
  std::unique_ptr<ChangeRecords> records_;
  std::unique_ptr<FolderStore> store_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace spate::trove
