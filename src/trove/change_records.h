// SPDX-License-Identifier: Apache-2.0
// ChangeRecords: keeps change counters that are not yet written to the datafiles, so that they survive a killed
// process. Format: docs/disk-datafiles.md, "Change records".
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate::trove {

/// The state of one datafile whose counter is newer in memory than in its inode.
struct ChangeRecord {
  DatafileId id;
  std::uint32_t changing = 0;  // changes that had begun: each may have had its effect
  std::uint64_t counter = 0;
  std::int64_t mtime_ns = 0;
};

/// The records that were found at the start.
struct LeftOverRecords {
  std::vector<ChangeRecord> records;
  bool same_boot = false;  // the machine has not been restarted: the records are complete and exact
};

/// The records lie in a shared mapping of a small file, so they survive a killed process as soon as they are stored to
/// memory. Thread-safe. The destructor unmaps the file, which stays for the next start.
class ChangeRecords {
 public:
  /// Reads what an earlier process left in `folder`; an absent or unreadable file yields nothing.
  static LeftOverRecords read(int folder, const std::string& boot_id);
  /// Parses the file's bytes. Yields nothing if they are no such file.
  static LeftOverRecords parse(ByteView raw, const std::string& boot_id);
  /// Makes an empty file with `slots` records and maps it. On a full device it clears the present file, which may have
  /// fewer slots. The caller has applied the left-over records before.
  static Result<std::unique_ptr<ChangeRecords>> create(int folder, const std::string& boot_id, std::size_t slots);

  ChangeRecords(const ChangeRecords&) = delete;
  ChangeRecords& operator=(const ChangeRecords&) = delete;
  ~ChangeRecords();

  /// A free slot, or -1 when all are taken.
  int take();
  void store(int slot, const ChangeRecord& record);
  void release(int slot);

 private:
  static Result<std::unique_ptr<ChangeRecords>> take_over(int folder, const std::string& boot_id, std::size_t slots);
  static Result<std::unique_ptr<ChangeRecords>> map_file(int fd, const std::string& boot_id, std::size_t slots);
  ChangeRecords(std::byte* map, std::size_t map_size, std::size_t slots);
  std::byte* map_;
  std::size_t map_size_;
  std::mutex mutex_;
  std::vector<int> free_;  // guarded by mutex_
};

/// /proc/sys/kernel/random/boot_id; empty when unknown (then every start counts as another boot).
std::string current_boot_id();

}  // namespace spate::trove
